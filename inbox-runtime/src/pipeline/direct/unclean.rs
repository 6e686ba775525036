//! What processes before this one have left: they may have ended because of an event.

use std::time::{Duration, Instant};

use inbox_engine::internal::{Item, Offset};
use inbox_store::internal::port::{IntakePartition, Suspect};

/// After a process that ended without a word events are written down before they run, for so long: whoever got no answer
/// from that one sends them again meanwhile.
const MARKED_FOR: Duration = Duration::from_mins(10);

/// What is known of the processes before this one.
#[derive(Debug, Default)]
pub(super) struct UncleanEnd {
    /// Until then events are written down before they run; nothing before the first look.
    marked_until: Option<Instant>,
    /// Where events are written down that others run, or have ended with. In ascending order.
    left: Vec<Offset>,
    /// What is written down of others was forgotten, once nobody sends it again.
    forgotten: bool,
}

impl UncleanEnd {
    /// Whether nobody has looked yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.marked_until.is_none()
    }

    /// What the first look has found; nothing where the process before has ended well.
    pub(super) fn found(&mut self, left: Option<Vec<Suspect>>, now: Instant) {
        self.forgotten = left.is_none();
        self.marked_until = Some(left.as_ref().map_or(now, |_| now + MARKED_FOR));
        self.left = left.unwrap_or_default().into_iter().map(|suspect| suspect.offset).collect();
        self.left.sort_unstable();
    }

    /// Whether events are written down before they run.
    pub(super) fn is_marked(&self, now: Instant) -> bool {
        self.marked_until.is_some_and(|until| now < until)
    }

    /// Has an event run with care, if a process may have ended with it.
    pub(super) fn judge<T>(&self, item: &mut Item<T>) {
        let place = || IntakePartition::place_of(&item.id);
        item.suspect = !self.left.is_empty() && self.left.binary_search(&place()).is_ok();
    }

    /// Events that have come to their ends, in this process.
    pub(super) fn acquit<'i>(&mut self, ids: impl Iterator<Item = &'i [u8; 16]>) {
        if self.left.is_empty() {
            return;
        }
        for id in ids {
            if let Ok(at) = self.left.binary_search(&IntakePartition::place_of(id)) {
                self.left.remove(at);
            }
        }
    }

    /// Whether what is written down of others is to be forgotten now: nobody sends it again. Once.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let over = !self.forgotten && !self.is_unknown() && !self.is_marked(now);
        if over {
            self.forgotten = true;
            self.left = Vec::new();
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(ids: &[[u8; 16]]) -> Vec<Suspect> {
        let suspect = |id| Suspect { offset: IntakePartition::place_of(id), deaths: 1, doom: None };
        ids.iter().map(suspect).collect()
    }

    #[test]
    fn after_an_unclean_end_events_are_written_down_for_a_while() {
        let (mut unclean, now) = (UncleanEnd::default(), Instant::now());
        assert!(unclean.is_unknown() && !unclean.is_marked(now) && !unclean.is_over(now));
        let ids = [[1; 16], [2; 16], [3; 16]];
        unclean.found(Some(left(&ids)), now);
        assert!(!unclean.is_unknown() && unclean.is_marked(now) && !unclean.is_over(now));
        unclean.acquit([&ids[1], &[4; 16]].into_iter());
        assert_eq!(unclean.left.len(), 2);
        let later = now + MARKED_FOR;
        assert!(!unclean.is_marked(later) && unclean.is_over(later));
        assert!(!unclean.is_over(later), "once");
        assert!(unclean.left.is_empty());
    }

    #[test]
    fn after_a_clean_end_nothing_is_written_down() {
        let (mut unclean, now) = (UncleanEnd::default(), Instant::now());
        unclean.found(None, now);
        assert!(!unclean.is_unknown() && !unclean.is_marked(now) && !unclean.is_over(now));
    }
}
