//! What the planner counts, and what is there.

use std::collections::HashMap;

use crate::{lane::Lane, planner::Planner, types::LaneKey};

impl<T> Planner<T> {
    /// How many events of an aggregate are in memory and not under way.
    pub(crate) fn in_memory(&self, aggregate: &str) -> usize {
        self.queues.get(aggregate).map_or(0, |queue| queue.items.len())
    }

    /// What tells its state from others; the order of maps does not matter.
    pub(crate) fn fingerprint(&self) -> String
    where
        T: std::fmt::Debug,
    {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.queues.iter().map(|queue| format!("{queue:?}")));
        parts.extend(self.lanes.iter().map(|(key, lane)| format!("{key:?}{}", lane.fingerprint())));
        parts.extend(self.calls.iter().map(|call| format!("{call:?}")));
        parts.sort_unstable();
        format!(
            "{parts:?}{:?}{}{:?}{:?}{}{}",
            (&self.destinations, self.memory.rows()),
            self.store.fingerprint(),
            self.dues,
            self.reading,
            self.claims_first,
            self.next_call,
        )
    }

    /// What is counted equals what is there, and is within its bounds.
    pub(crate) fn check(&self) {
        let calls = self.calls.values().flat_map(|call| &call.items);
        let doubts = self.lanes.values().flat_map(Lane::in_doubt);
        let queued = self.queues.values().flat_map(|queue| &queue.items);
        let (mut bytes, mut largest) = (0, 0);
        let mut rows: HashMap<&LaneKey, usize> = HashMap::new();
        for item in calls.chain(doubts).chain(queued) {
            *rows.entry(&item.lane).or_default() += 1;
            bytes += item.bytes;
            largest = largest.max(item.bytes);
            assert!(self.memory.knows(item.key.seq), "{:?} is in memory", item.key);
        }
        assert_eq!(self.memory.bytes, bytes, "bytes in memory");
        for (key, lane) in &self.lanes {
            assert_eq!(lane.rows, rows.remove(key).unwrap_or_default(), "rows of {key:?}");
        }
        assert!(rows.is_empty(), "rows of lanes that are not there: {rows:?}");
        let most = self.settings.rows_max + self.settings.batch_rows;
        assert!(self.memory.rows().len() <= most, "{} rows in memory", self.memory.rows().len());
        // One row may be larger than what is left.
        let most = self.settings.bytes_max + self.settings.batch_bytes + largest;
        assert!(self.memory.bytes <= most, "{} bytes in memory", self.memory.bytes);
        for (aggregate, queue) in &self.queues {
            let stands = queue.under_way > 0 || queue.lined_up;
            assert!(stands, "nothing will send what waits of {aggregate}");
        }
    }
}
