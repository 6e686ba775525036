//! Whether what the group gives fits what is consumed, and who else is in it.
//!
//! The assignor is sticky, and what a member owns it leaves with it, be it there or not (librdkafka 2.12). A static
//! member that comes back gets what it had, without a look at what it wants now (KIP-345): a topic that was added is
//! nobody's then, and one that was removed is still its own. Members that are joined anew make the group assign anew.

use std::time::{Duration, Instant};

use inbox_engine::internal::Rule;
use rdkafka::{consumer::Consumer as _, types::RDKafkaErrorCode};

use crate::{
    client::partition_label, command::Question, event::EventPartition, group_view::GroupView,
    poll_loop::PollLoop,
};

/// A group has so long to give what fits by itself.
const MISFIT_MAX: Duration = Duration::from_secs(10);
/// Each time that it was in vain the next try waits twice as long, up to so many times.
const DOUBLED_MAX: u32 = 5;

/// What the group gives and this member does not consume, or does not give anybody.
#[derive(Debug, Default)]
pub(crate) struct Misfit {
    /// Partitions of topics that are not consumed: they were not taken.
    refused: Vec<usize>,
    since: Option<Instant>,
    rejoined: u32,
    /// The answer to who is in the group is waited for: whether it is for people.
    asked: Option<bool>,
}

impl PollLoop {
    /// What of an assignment is consumed; the rest is not taken, and its name is told.
    pub(crate) fn refuse_unconfigured(&mut self, numbers: &[usize]) -> Vec<usize> {
        let consumed = |number: &usize| {
            self.stats.consumes(&self.states.get(*number).topic_partition.topic)
                || !Rule::UnconfiguredIsReturned.on()
        };
        let (taken, refused): (Vec<usize>, Vec<usize>) =
            numbers.iter().copied().partition(consumed);
        self.misfit.refused.extend(&refused);
        if !refused.is_empty() {
            let names: Vec<String> =
                self.states.topic_partitions(&refused).iter().map(partition_label).collect();
            let why = format!(
                "the group gives {}, of topics that `kafka.topics` does not name: they are not \
                 read, and this member rejoins the group to return them",
                names.join(", ")
            );
            self.tell_trouble(RDKafkaErrorCode::UnknownPartition, &why);
        }
        taken
    }

    /// What of a revocation was taken: nothing else is there to be given back.
    pub(crate) fn forget_refused(&mut self, numbers: &[usize]) -> Vec<usize> {
        let refused = std::mem::take(&mut self.misfit.refused);
        let (gone, left): (Vec<usize>, Vec<usize>) =
            refused.into_iter().partition(|number| numbers.contains(number));
        self.misfit.refused = left;
        numbers.iter().copied().filter(|number| !gone.contains(number)).collect()
    }

    /// Looks at what a static member cannot know by itself: whether somebody has each topic.
    pub(crate) fn ask_group(&mut self) {
        if self.is_static && self.misfit.asked.is_none() && self.stats.is_joined() {
            self.misfit.asked = Some(false);
            self.ask_asker(Question::Group);
        }
    }

    /// The group refuses this member for the assignor of the others: asks who they are.
    pub(crate) fn ask_who(&mut self) {
        if self.misfit.asked != Some(true) {
            self.misfit.asked = Some(true);
            self.ask_asker(Question::Group);
        }
    }

    pub(crate) fn handle_group(&mut self, described: Result<GroupView, String>) {
        if self.misfit.asked.take() == Some(true) {
            let who = described.as_ref().map_or_else(
                |why| {
                    format!(
                        "the other members use another one, and the group cannot be \
                               described: {why}"
                    )
                },
                GroupView::others,
            );
            self.tell_trouble(RDKafkaErrorCode::InconsistentGroupProtocol, &who);
        }
        match described {
            Ok(view) if view.is_stable && self.is_static && self.stats.is_joined() => {
                self.stats.note_unassigned(&view.assigned);
            }
            // While the group is on its way nothing follows from it.
            _ => {}
        }
    }

    /// Leaves the group and joins it anew while what it gives does not fit.
    pub(crate) fn rejoin_where_misfit(&mut self, now: Instant) {
        let may = self.revocation.is_none() && Rule::MisfitRejoins.on();
        let Some(why) = self.misfit().filter(|_| may) else {
            self.misfit.since = None;
            if self.stats.is_joined() && self.misfit.refused.is_empty() {
                self.misfit.rejoined = 0;
            }
            return;
        };
        let since = *self.misfit.since.get_or_insert(now);
        if now.duration_since(since) < MISFIT_MAX * (1 << self.misfit.rejoined.min(DOUBLED_MAX)) {
            return;
        }
        self.misfit.since = None;
        self.misfit.rejoined += 1;
        self.tell_trouble(RDKafkaErrorCode::UnknownPartition, &why);
        let topics = self.stats.topics();
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        self.client.unsubscribe();
        if let Err(error) = self.client.subscribe(&names) {
            self.tell_fatal(format!("subscribing to the topics failed: {error}"));
        }
    }

    fn misfit(&self) -> Option<String> {
        let gone = |number: usize| self.stats.lacks(&self.states.get(number).topic_partition);
        if self.states.ours().into_iter().any(gone) {
            return Some(
                "the group gives partitions that no longer exist; this member rejoins it".into(),
            );
        }
        if !self.misfit.refused.is_empty() {
            return Some(
                "the group gives topics that are not consumed; this member rejoins it".into(),
            );
        }
        let unassigned = self.stats.unassigned();
        (!unassigned.is_empty()).then(|| {
            format!(
                "no member of the group was given {}; this one rejoins it",
                unassigned.join(", ")
            )
        })
    }

    /// Notes what the brokers forbid.
    pub(crate) fn notice_forbidden(&self, code: RDKafkaErrorCode, about: Option<&EventPartition>) {
        match (code, about) {
            (RDKafkaErrorCode::TopicAuthorizationFailed, Some(partition)) => {
                self.stats.note_forbidden(Some(&partition.topic));
            }
            (RDKafkaErrorCode::GroupAuthorizationFailed, _) => self.stats.note_forbidden(None),
            _ => {}
        }
    }
}
