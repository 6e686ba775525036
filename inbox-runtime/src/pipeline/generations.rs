//! A map of what was put in last.

use std::{collections::HashMap, hash::Hash, mem};

/// How much each of the two generations holds: as many as a table of 65,536 places takes.
pub(super) const GENERATION_MAX: usize = 57_344;

/// When the younger one is full, the older one is forgotten: at most 114,688 are held.
#[derive(Debug)]
pub(super) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Copy> Generations<K, V> {
    /// What is asked for stays.
    pub(super) fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(*value);
        }
        let value = self.old.remove(&key)?;
        self.insert(key, value);
        Some(value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        // Of both: what is older must not come up again.
        let old = self.old.remove(key);
        self.young.remove(key).or(old)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= GENERATION_MAX {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_last_is_kept() {
        let mut map = Generations::default();
        map.insert(0, 1);
        (1..=GENERATION_MAX).for_each(|key| map.insert(key, 2));
        map.insert(0, 3);
        assert_eq!((map.remove(&0), map.remove(&0)), (Some(3), None), "the older one is gone");
        map.insert(0, 5);
        (1..=2 * GENERATION_MAX + 1).for_each(|key| map.insert(key, 4));
        assert_eq!(map.get(0), None, "two generations have come since");
        assert!(map.young.len() + map.old.len() <= 2 * GENERATION_MAX);
    }

    #[test]
    fn what_is_asked_for_stays() {
        let mut map = Generations::default();
        map.insert(0, 1);
        for key in 1..=3 * GENERATION_MAX {
            assert_eq!(map.get(0), Some(1), "before {key}");
            map.insert(key, 2);
        }
        assert_eq!(map.get(1), None);
    }
}
