//! What is still to be said of partitions: the last word about each counts.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use inbox_store::internal::port::Scope;

use super::grouped::GROUP_MAX;

/// A word about a partition, or (`None`) that there is nothing to say.
pub(super) type PartitionNote = (Scope, Option<String>);

/// What is still to be said. One task at a time says it, so that no word overtakes a later one.
#[derive(Debug, Default)]
pub(super) struct PendingNotes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By `partition_ref`.
    pending: HashMap<i64, PartitionNote>,
    busy: bool,
}

impl PendingNotes {
    /// Whether somebody has to say it: nobody is at it.
    pub(super) fn add(&self, note: PartitionNote) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.pending.insert(note.0.partition_ref, note);
        !std::mem::replace(&mut state.busy, true)
    }

    /// Some of what is to be said; nothing when all was, and then nobody is at it any more.
    pub(super) fn take(&self) -> Vec<PartitionNote> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let some: Vec<i64> = state.pending.keys().copied().take(GROUP_MAX).collect();
        state.busy = !some.is_empty();
        some.iter().filter_map(|reference| state.pending.remove(reference)).collect()
    }

    /// These could not be said; what was added about the same partitions since is newer.
    pub(super) fn put_back(&self, notes: Vec<PartitionNote>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            state.pending.entry(note.0.partition_ref).or_insert(note);
        }
    }

    /// Whether all was said.
    pub(super) fn is_idle(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).busy
    }
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::Epoch;

    use super::*;

    fn note(partition_ref: i64, reason: Option<&str>) -> PartitionNote {
        let scope = Scope { consumer_ref: 1, partition_ref, epoch: Epoch(1) };
        (scope, reason.map(str::to_owned))
    }

    fn reasons(notes: Vec<PartitionNote>) -> Vec<Option<String>> {
        notes.into_iter().map(|(_, reason)| reason).collect()
    }

    #[test]
    fn the_last_word_about_a_partition_is_said_last() {
        let notes = PendingNotes::default();
        assert!(notes.add(note(1, Some("outage"))), "somebody has to say it");
        assert!(!notes.add(note(1, None)), "somebody is at it");
        assert_eq!(reasons(notes.take()), [None]);
        // While it is being said there is more to say, and saying it fails.
        assert!(!notes.add(note(1, Some("later"))));
        notes.put_back(vec![note(1, None)]);
        assert_eq!(reasons(notes.take()), [Some("later".to_owned())]);
        assert!(!notes.is_idle());
        assert!(notes.take().is_empty() && notes.is_idle());
        assert!(notes.add(note(2, None)), "somebody has to say it again");
    }
}
