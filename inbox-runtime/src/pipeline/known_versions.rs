//! Versions that this process has written itself, so that the claim need not read them.
//!
//! They decide nothing alone: a version is used for the very next event of its aggregate, and the advance compares it
//! with the row. Whatever else comes is judged by what the claim reads.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use inbox_engine::internal::Rule;

use super::generations::Generations;

/// The last versions of the aggregates that were written last, at most 114,688 of them in 3.3 MB.
#[derive(Debug, Default)]
pub(super) struct KnownVersions {
    generations: Mutex<Generations<[u8; 16], i64>>,
}

/// The version of an aggregate, and that of the last event that goes behind it.
#[derive(Clone, Copy, Debug)]
struct Taken {
    version: i64,
    ahead: i64,
}

impl Taken {
    fn is_before(self, version: i64) -> bool {
        self.ahead.checked_add(1) == Some(version) || !Rule::VersionsReadInDoubt.on()
    }
}

impl KnownVersions {
    /// Takes the versions of the aggregates of these events out: only a COMMIT brings them back, so that what a
    /// transaction has doubts about is read by the next one. Answers those of which nothing but the very next events
    /// are here. Somebody else may have gone on with the others.
    pub(super) fn take(
        &self,
        events: impl Iterator<Item = ([u8; 16], i64)>,
    ) -> impl Iterator<Item = ([u8; 16], i64)> {
        let mut generations = self.lock();
        let mut taken: HashMap<[u8; 16], Option<Taken>> = HashMap::new();
        for (key, version) in events {
            let last = taken.entry(key).or_insert_with(|| {
                generations.remove(&key).map(|version| Taken { version, ahead: version })
            });
            *last = last
                .filter(|last| last.is_before(version))
                .map(|last| Taken { ahead: version, ..last });
        }
        taken.into_iter().filter_map(|(key, last)| Some((key, last?.version)))
    }

    /// Takes in what a transaction has written and committed.
    pub(super) fn put(&self, versions: impl Iterator<Item = ([u8; 16], i64)>) {
        let mut generations = self.lock();
        for (key, version) in versions {
            generations.insert(key, version);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations<[u8; 16], i64>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> [u8; 16] {
        (n as u128).to_be_bytes()
    }

    fn take(known: &KnownVersions, n: usize, versions: &[i64]) -> Option<i64> {
        let events = versions.iter().map(|version| (key(n), *version));
        known.take(events).next().map(|(_, version)| version)
    }

    #[test]
    fn the_very_next_events_are_enough() {
        for (versions, known) in [
            (&[8][..], Some(7)),
            (&[8, 9, 10], Some(7)),
            (&[9], None),
            (&[7], None),
            (&[8, 8], None),
            (&[8, 10], None),
            (&[9, 8], None),
            (&[i64::MIN], None),
        ] {
            let versions_known = KnownVersions::default();
            versions_known.put([(key(1), 7), (key(2), i64::MAX)].into_iter());
            assert_eq!(take(&versions_known, 1, versions), known, "{versions:?}");
            assert_eq!(take(&versions_known, 1, &[8]), None, "it was taken out");
            assert_eq!(take(&versions_known, 2, &[i64::MIN]), None);
        }
    }
}
