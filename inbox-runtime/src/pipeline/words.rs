//! What is still to be said of partitions: the last word about each counts.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use inbox_store::internal::port::Scope;

use super::together::TOGETHER_MAX;

/// A word about a partition, or (`None`) that there is nothing to say.
pub(super) type Word = (Scope, Option<String>);

/// What is still to be said. One task at a time says it, so that no word overtakes a later one.
#[derive(Debug, Default)]
pub(super) struct Words(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By `partition_ref`.
    unsaid: HashMap<i64, Word>,
    busy: bool,
}

impl Words {
    /// Whether somebody has to say it: nobody is at it.
    pub(super) fn add(&self, word: Word) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.unsaid.insert(word.0.partition_ref, word);
        !std::mem::replace(&mut state.busy, true)
    }

    /// Some of what is to be said; nothing when all was, and then nobody is at it any more.
    pub(super) fn take(&self) -> Vec<Word> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let some: Vec<i64> = state.unsaid.keys().copied().take(TOGETHER_MAX).collect();
        state.busy = !some.is_empty();
        some.iter().filter_map(|reference| state.unsaid.remove(reference)).collect()
    }

    /// These could not be said; what was added about the same partitions since is newer.
    pub(super) fn put_back(&self, words: Vec<Word>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for word in words {
            state.unsaid.entry(word.0.partition_ref).or_insert(word);
        }
    }

    /// Whether all was said.
    pub(super) fn is_silent(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).busy
    }
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::Epoch;

    use super::*;

    fn word(partition_ref: i64, reason: Option<&str>) -> Word {
        let scope = Scope { consumer_ref: 1, partition_ref, epoch: Epoch(1) };
        (scope, reason.map(str::to_owned))
    }

    fn reasons(words: Vec<Word>) -> Vec<Option<String>> {
        words.into_iter().map(|(_, reason)| reason).collect()
    }

    #[test]
    fn the_last_word_about_a_partition_is_said_last() {
        let words = Words::default();
        assert!(words.add(word(1, Some("outage"))), "somebody has to say it");
        assert!(!words.add(word(1, None)), "somebody is at it");
        assert_eq!(reasons(words.take()), [None]);
        // While it is being said there is more to say, and saying it fails.
        assert!(!words.add(word(1, Some("later"))));
        words.put_back(vec![word(1, None)]);
        assert_eq!(reasons(words.take()), [Some("later".to_owned())]);
        assert!(!words.is_silent());
        assert!(words.take().is_empty() && words.is_silent());
        assert!(words.add(word(2, None)), "somebody has to say it again");
    }
}
