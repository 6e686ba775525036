//! What a release does with the queue it has read.

use inbox_engine::internal::ParkReason;
use inbox_store::internal::port::release::{DueState, Queued};

/// A release's part of a queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ReleasePlan {
    /// Events that a person gave up, wherever they are: removed without being run.
    pub(super) discard: Vec<Queued>,
    /// Events to run, in their order.
    pub(super) run: Vec<Queued>,
    /// When all of that goes well, the next one is due at once.
    pub(super) more: bool,
}

impl ReleasePlan {
    /// No more than so many are run.
    pub(super) fn cut(mut self, max: usize) -> Self {
        // What would have been run behind them follows, and so is due.
        self.more |= self.run.len() > max;
        self.run.truncate(max);
        self
    }
}

/// The head is run when it is due, and with it what merely follows it. So does a follower that is due itself: it was a
/// head until another one joined before it, or has waited for a version. What has a time of its own, or waits for a
/// person, ends the run: it is the next head.
pub(super) fn plan(rows: Vec<Queued>, max: usize) -> ReleasePlan {
    let mut plan = ReleasePlan::default();
    let (discard, stay): (Vec<_>, Vec<_>) = rows.into_iter().partition(Queued::discarded);
    plan.discard = discard;
    for row in stay {
        let head = plan.run.is_empty();
        let runs = if head { row.due() } else { follows(&row) };
        if !runs || plan.run.len() == max {
            plan.more = row.due();
            break;
        }
        plan.run.push(row);
    }
    plan
}

fn follows(row: &Queued) -> bool {
    match row.due_state {
        DueState::Follows => true,
        DueState::Due => row.reason == ParkReason::Follower.as_str(),
        DueState::Later => false,
    }
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::{LeaderEpoch, Offset};
    use inbox_store::internal::port::release::Intent;

    use super::*;

    fn row(seq: i64, due_state: DueState, intent: Option<Intent>) -> Queued {
        Queued {
            seq,
            id: [0; 16],
            fingerprint: [0; 16],
            sha256: true,
            offset: Offset(seq),
            leader_epoch: LeaderEpoch(0),
            reason: "exhausted".into(),
            attempts: 0,
            releases: 0,
            due_state,
            intent: intent.map(|intent| (intent, "anna".into())),
            event_type: String::new(),
            aggregate_text: String::new(),
            errors: "[]".into(),
            record: String::new(),
        }
    }

    const DISCARD: Option<Intent> = Some(Intent::Discard);
    const RELEASE: Option<Intent> = Some(Intent::Release);

    /// The places that run, those that are discarded, and whether the next one is due.
    fn of(rows: &[(DueState, Option<Intent>)], max: usize) -> (Vec<i64>, Vec<i64>, bool) {
        let rows = (1..).zip(rows).map(|(seq, (turn, intent))| row(seq, *turn, *intent)).collect();
        let seqs = |rows: &[Queued]| rows.iter().map(|row| row.seq).collect();
        let ReleasePlan { discard, run, more } = plan(rows, max);
        (seqs(&run), seqs(&discard), more)
    }

    #[test]
    fn a_due_head_runs_with_what_follows_it() {
        use DueState::{Due, Follows, Later};
        assert_eq!(
            of(&[(Due, None), (Follows, None), (Follows, None)], 9),
            (vec![1, 2, 3], vec![], false)
        );
        assert_eq!(of(&[(Later, RELEASE), (Follows, None)], 9), (vec![1, 2], vec![], false));
        assert_eq!(of(&[(Later, None), (Follows, RELEASE)], 9), (vec![], vec![], false));
        assert_eq!(
            of(&[(Due, None), (Follows, None), (Follows, None)], 2),
            (vec![1, 2], vec![], true)
        );
    }

    #[test]
    fn what_has_a_turn_of_its_own_ends_the_run() {
        use DueState::{Due, Follows, Later};
        assert_eq!(of(&[(Due, None), (Later, None), (Follows, None)], 9), (vec![1], vec![], false));
        assert_eq!(of(&[(Due, None), (Later, RELEASE)], 9), (vec![1], vec![], true));
        assert_eq!(of(&[(Due, None), (Due, None)], 9), (vec![1], vec![], true));
    }

    /// It was a head, or waited for a version.
    #[test]
    fn a_follower_that_is_due_runs_along() {
        use DueState::{Due, Later};
        let woken =
            |seq, due_state| Queued { reason: "follower".into(), ..row(seq, due_state, None) };
        let seqs =
            |rows, max| -> Vec<i64> { plan(rows, max).run.iter().map(|row| row.seq).collect() };
        let rows = vec![row(1, Due, None), woken(2, Due), woken(3, Due), woken(4, Later)];
        assert_eq!(seqs(rows.clone(), 9), [1, 2, 3]);
        assert_eq!(seqs(rows, 2), [1, 2]);
        assert_eq!(seqs(vec![woken(1, Due), row(2, Due, None), woken(3, Due)], 9), [1]);
        assert_eq!(seqs(vec![woken(1, Later), woken(2, Due)], 9), [0_i64; 0]);
    }

    #[test]
    fn a_discard_is_carried_out_wherever_it_is() {
        use DueState::{Due, Follows, Later};
        assert_eq!(of(&[(Later, None), (Follows, DISCARD)], 9), (vec![], vec![2], false));
        assert_eq!(of(&[(Later, DISCARD), (Follows, None)], 9), (vec![2], vec![1], false));
        assert_eq!(
            of(&[(Due, None), (Follows, DISCARD), (Follows, None)], 9),
            (vec![1, 3], vec![2], false)
        );
        assert_eq!(of(&[], 9), (vec![], vec![], false));
    }
}
