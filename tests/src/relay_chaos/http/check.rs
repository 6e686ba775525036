//! The checker: what the receiver was sent, against business table and outbox. It shares no code with the relay.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{network::Trouble, receiver::Call};
use crate::relay_chaos::{
    FaultTime, Kind, Wake,
    check::{Kept, LISTED_MAX, Row},
};

/// What is seen late by one of two clocks of one machine.
const SLACK_MS: i64 = 1_000;
/// The longest from the acceptance of an event to the mark of its row, when nothing is in the way.
const MARK_MAX_MS: i64 = 3_000;
/// Calls that a relay may have begun in the moment in which it was frozen: one on each of its threads.
const FROZEN_AT_THE_START: usize = 4;

/// What it is judged by.
pub(super) struct Evidence<'a> {
    /// In the order in which they came.
    pub(super) calls: &'a [Call],
    pub(super) faults: &'a [FaultTime],
    pub(super) wakes: &'a [Wake],
    pub(super) troubles: &'a [Trouble],
    /// Ids of events for which a commit was never asked.
    pub(super) never_committed: &'a HashSet<String>,
    /// Ids of events whose commit was acknowledged.
    pub(super) committed: &'a HashSet<String>,
}

impl Evidence<'_> {
    fn accepted(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.answer.accepts())
    }
}

/// Every rule. The first violations of each are listed.
pub(super) fn check(kept: &Kept, evidence: &Evidence<'_>) -> Vec<String> {
    let found = [
        lost(kept, evidence),
        strange(kept, evidence),
        out_of_order(kept, evidence),
        too_early(evidence),
        unlike_the_first(evidence),
        unexplained_copies(evidence),
        without_a_turn(evidence),
    ];
    let found = kept.unsound().into_iter().chain(found);
    found.flat_map(|wrong| wrong.into_iter().take(LISTED_MAX)).collect()
}

/// Acceptances of what was accepted before.
pub(super) fn copies(calls: &[Call]) -> usize {
    let accepted = calls.iter().filter(|call| call.answer.accepts());
    let (all, keys) = accepted.fold((0, HashSet::new()), |(all, mut keys), call| {
        keys.insert(&call.key);
        (all + 1, keys)
    });
    all - keys.len()
}

/// Each event that was committed is in the database, and was accepted.
fn lost(kept: &Kept, evidence: &Evidence<'_>) -> Vec<String> {
    let accepted: HashSet<&str> = evidence.accepted().map(|call| call.key.as_str()).collect();
    let there: HashSet<&str> = kept.rows.iter().map(|row| row.id.as_str()).collect();
    let gone = evidence.committed.iter().filter(|id| !there.contains(id.as_str()));
    let gone = gone.map(|id| format!("gone from the outbox: {id}"));
    let lost = kept.rows.iter().filter(|row| !accepted.contains(row.id.as_str()));
    gone.chain(lost.map(|row| format!("lost: {row:?}"))).collect()
}

/// Each call is about an event that was committed, under its aggregate and number.
fn strange(kept: &Kept, evidence: &Evidence<'_>) -> Vec<String> {
    let rows: HashMap<&str, &Row> = kept.rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let wrong = |call: &Call| match rows.get(call.key.as_str()) {
        Some(row) if (&row.aggregate, row.n) == (&call.aggregate, call.n) => None,
        Some(row) => Some(format!("{row:?} became {call:?}")),
        None if evidence.never_committed.contains(&call.key) => {
            Some(format!("rolled back: {call:?}"))
        }
        None => Some(format!("never committed: {call:?}")),
    };
    evidence.calls.iter().filter_map(wrong).collect()
}

/// The first acceptances of each aggregate are its numbers in sequence.
fn out_of_order(kept: &Kept, evidence: &Evidence<'_>) -> Vec<String> {
    let mut firsts: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for call in evidence.accepted() {
        if seen.insert(&call.key) {
            firsts.entry(&call.aggregate).or_default().push(call.n);
        }
    }
    kept.out_of_order(&firsts)
}

/// No event is so much as sent before the one ahead of it was accepted.
fn too_early(evidence: &Evidence<'_>) -> Vec<String> {
    let mut last: HashMap<&str, i64> = HashMap::new();
    let mut wrong = Vec::new();
    for call in evidence.calls {
        let last = last.entry(&call.aggregate).or_default();
        if call.n > *last + 1 {
            wrong.push(format!("sent when {last} was the last accepted: {call:?}"));
        }
        if call.answer.accepts() {
            *last = call.n.max(*last);
        }
    }
    wrong
}

/// A key stands for one body of one aggregate, and a number of an aggregate has one key.
fn unlike_the_first(evidence: &Evidence<'_>) -> Vec<String> {
    let mut firsts: HashMap<&str, &Call> = HashMap::new();
    let mut keys: HashMap<(&str, i64), &Call> = HashMap::new();
    let mut wrong = Vec::new();
    for call in evidence.calls {
        let first = *firsts.entry(&call.key).or_insert(call);
        if (&first.aggregate, &first.body) != (&call.aggregate, &call.body) {
            wrong.push(format!("a copy differs: {first:?} {call:?}"));
        }
        let first = *keys.entry((&call.aggregate, call.n)).or_insert(call);
        if first.key != call.key {
            wrong.push(format!("one event, two keys: {first:?} {call:?}"));
        }
    }
    wrong
}

/// What was accepted comes again for a reason: its answer was not a plain one, or the network lost it; or its relay was
/// killed or frozen before the mark. A relay that was neither sends nothing again that it knows to be delivered.
fn unexplained_copies(evidence: &Evidence<'_>) -> Vec<String> {
    let mut latest: HashMap<&str, &Call> = HashMap::new();
    let mut wrong = Vec::new();
    for call in evidence.accepted() {
        let Some(before) = latest.insert(&call.key, call) else { continue };
        let troubled = evidence.troubles.iter().any(|trouble| {
            (trouble.from_ms - SLACK_MS..=trouble.to_ms + SLACK_MS).contains(&before.at_ms)
        });
        let another = before.relay != call.relay;
        let fault = evidence.faults.iter().any(|fault| {
            (another || fault.kind != Kind::Kill)
                && before.at_ms >= fault.began_ms - MARK_MAX_MS
                && before.at_ms <= fault.moved_ms + SLACK_MS
                && call.at_ms >= fault.began_ms - SLACK_MS
        });
        if before.answer.is_plain() && !troubled && !fault {
            wrong.push(format!("a copy without a reason: {before:?} {call:?}"));
        }
    }
    wrong
}

/// A relay that has lost its turn while it was frozen begins no call.
fn without_a_turn(evidence: &Evidence<'_>) -> Vec<String> {
    let wrong = evidence.wakes.iter().filter_map(|wake| {
        let begun = evidence.calls.iter().filter(|call| {
            call.relay == wake.relay
                && call.begun_s >= wake.resumed_ms / 1_000
                && call.at_ms <= wake.over_ms
        });
        let count = begun.count();
        (count > FROZEN_AT_THE_START).then(|| format!("{count} calls without a turn: {wake:?}"))
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{
        super::{network::Kind as TroubleKind, script::Answer},
        *,
    };

    fn call(aggregate: &str, n: i64, at_ms: i64) -> Call {
        let (key, body) = (format!("{aggregate}-{n}"), Bytes::from(n.to_string()));
        let (begun_s, answer) = (at_ms / 1_000, Answer::Plain);
        Call { key, aggregate: aggregate.into(), n, body, relay: 0, begun_s, at_ms, answer }
    }

    fn answered(answer: Answer, call: Call) -> Call {
        Call { answer, ..call }
    }

    fn kept(rows: &[(&str, i64)]) -> Kept {
        let row =
            |(aggregate, n): &(&str, i64)| Row::of(&format!("{aggregate}-{n}"), aggregate, *n);
        let last: BTreeMap<String, i64> = rows.iter().map(|(a, n)| ((*a).to_owned(), *n)).collect();
        Kept { rows: rows.iter().map(row).collect(), ledger: last.into_iter().collect() }
    }

    fn judged<T>(calls: &[Call], judge: impl FnOnce(&Evidence<'_>) -> T) -> T {
        let (never_committed, committed) =
            (HashSet::from(["back-1".to_owned()]), HashSet::from(["a-1".to_owned()]));
        let (faults, wakes, troubles) = (&[], &[], &[]);
        let never_committed = &never_committed;
        judge(&Evidence { calls, faults, wakes, troubles, never_committed, committed: &committed })
    }

    #[test]
    fn planted_losses_are_found() {
        let all = kept(&[("a", 1), ("a", 2)]);
        let calls = [call("a", 1, 10), answered(Answer::Failed, call("a", 2, 20))];
        judged(&calls, |found| {
            assert_eq!(lost(&all, found).len(), 1, "what was refused is lost");
            assert_eq!(lost(&kept(&[]), found).len(), 1, "it is gone from the outbox");
            assert_eq!(strange(&all, found), [""; 0]);
            assert_eq!(strange(&kept(&[("a", 1)]), found).len(), 1, "never committed");
        });
        let calls = [call("a", 1, 10), answered(Answer::CutBeforeHead, call("a", 2, 20))];
        judged(&calls, |found| assert_eq!(lost(&all, found), [""; 0]));
        let other = [Call { n: 7, ..call("a", 1, 10) }, call("back", 1, 20)];
        judged(&other, |found| assert_eq!(strange(&all, found).len(), 2));
    }

    #[test]
    fn planted_reorderings_are_found() {
        let all = kept(&[("a", 1), ("a", 2), ("a", 3)]);
        let wrong = |calls: &[Call]| {
            judged(calls, |found| (out_of_order(&all, found).len(), too_early(found).len()))
        };
        let [one, two, three] = [1, 2, 3].map(|n| call("a", n, n * 10));
        assert_eq!(
            wrong(&[one.clone(), two.clone(), one.clone(), three.clone()]),
            (0, 0),
            "a copy"
        );
        assert_eq!(wrong(&[one.clone(), three.clone(), two.clone()]), (1, 1));
        let refused = answered(Answer::Busy, three.clone());
        assert_eq!(wrong(&[one, refused, two, three]), (0, 1), "it was sent too early in vain");
    }

    #[test]
    fn planted_copies_are_found() {
        let (first, again) = (call("a", 1, 20_000), call("a", 1, 30_000));
        let both = [first.clone(), again.clone()];
        let wrong = |calls: &[Call], faults: &[FaultTime], troubles: &[Trouble]| {
            judged(calls, |found| {
                unexplained_copies(&Evidence { faults, troubles, ..*found }).len()
            })
        };
        assert_eq!(copies(&both), 1);
        assert_eq!(wrong(&both, &[], &[]), 1);
        for answer in [Answer::TooLate, Answer::CutBeforeHead, Answer::TakenAndFailed] {
            let both = [answered(answer, first.clone()), again.clone()];
            assert_eq!(wrong(&both, &[], &[]), 0, "{answer:?}");
        }
        let kind = TroubleKind::Silent;
        let trouble = |from_ms| Trouble { kind, from_ms, to_ms: from_ms + 500 };
        assert_eq!(wrong(&both, &[], &[trouble(19_900)]), 0);
        assert_eq!(wrong(&both, &[], &[trouble(25_000)]), 1, "the answer was there by then");
        let fault = |kind| FaultTime { kind, since_ms: 0, began_ms: 21_000, moved_ms: 25_000 };
        assert_eq!(wrong(&both, &[fault(Kind::Freeze)], &[]), 0);
        assert_eq!(wrong(&both, &[fault(Kind::Kill)], &[]), 1, "it was not this relay's end");
        let another = [first.clone(), Call { relay: 1, ..again.clone() }];
        assert_eq!(wrong(&another, &[fault(Kind::Kill)], &[]), 0);
        let unlike = |other: Call| judged(&[first.clone(), other], |f| unlike_the_first(f).len());
        assert_eq!(unlike(again.clone()), 0);
        assert_eq!(unlike(Call { body: Bytes::from_static(b"2"), ..again.clone() }), 1);
        assert_eq!(unlike(Call { key: "other".into(), ..again }), 1);
    }

    #[test]
    fn calls_of_a_relay_without_a_turn_are_found() {
        let wake = Wake { relay: 3, resumed_ms: 20_500, over_ms: 21_000 };
        let count = |call: Call| {
            let calls = vec![call; FROZEN_AT_THE_START + 1];
            judged(&calls, |found| without_a_turn(&Evidence { wakes: &[wake], ..*found }).len())
        };
        let begun = Call { relay: 3, begun_s: 20, ..call("a", 1, 20_600) };
        assert_eq!(count(begun.clone()), 1);
        assert_eq!(count(Call { begun_s: 17, ..begun.clone() }), 0, "it was begun before");
        assert_eq!(count(Call { relay: 4, ..begun.clone() }), 0, "another's");
        assert_eq!(count(Call { at_ms: 21_500, ..begun }), 0, "the turn may be its own by then");
    }
}
