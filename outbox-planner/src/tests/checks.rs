//! What holds at every step.

use std::collections::{BTreeMap, BTreeSet};

use super::world::World;
use crate::types::Item;

impl World {
    /// The planner's counters are what they count, and bounds are kept.
    pub(super) fn check(&self) {
        let planner = &self.planner;
        let settings = &planner.settings;
        let mut rows: Vec<&Item<()>> = Vec::new();
        let mut under_way = BTreeMap::<&str, usize>::new();
        let mut calls = vec![0; settings.destinations.len()];
        let mut calling = BTreeSet::new();
        for call in planner.calls.values() {
            calls[call.lane.destination] += 1;
            let aggregates: BTreeSet<&str> = call.items.iter().map(|it| &*it.aggregate).collect();
            for aggregate in aggregates {
                assert!(calling.insert(aggregate), "one call has events of {aggregate}");
            }
            rows.extend(&call.items);
        }
        let doubts = planner.lanes.values().flat_map(|lane| &lane.doubts);
        rows.extend(doubts.map(|(_, (item, _))| item));
        for item in &rows {
            *under_way.entry(&item.aggregate).or_default() += 1;
        }
        for (limits, calls) in settings.destinations.iter().zip(calls) {
            assert!(calls <= limits.calls_max, "{} has up to calls_max calls", limits.name);
        }
        for (aggregate, queue) in &planner.queues {
            let count = under_way.remove(&**aggregate).unwrap_or(0);
            assert_eq!(queue.under_way, count, "under way of {aggregate}");
            assert!(!queue.is_over(), "{aggregate} is forgotten");
            assert!(queue.items.iter().map(|item| item.key.seq).is_sorted(), "in order");
            rows.extend(&queue.items);
            let lines = planner.lanes.iter().flat_map(|(key, lane)| {
                lane.ready.iter().filter(|it| *it == aggregate).map(move |_| key)
            });
            let lines: Vec<_> = lines.collect();
            let first = queue.items.front().map(|item| &item.lane);
            let expected: Vec<_> = first.into_iter().filter(|_| count == 0).collect();
            assert_eq!(lines, expected, "{aggregate} stands where its first event goes");
            assert_eq!(queue.lined_up, !lines.is_empty());
        }
        assert!(under_way.is_empty(), "what is under way has a queue: {under_way:?}");
        let mut counts = BTreeMap::new();
        for item in &rows {
            let (count, bytes) = counts.entry(&item.lane).or_insert((0, 0));
            (*count, *bytes) = (*count + 1, *bytes + item.bytes);
        }
        for (key, lane) in &planner.lanes {
            let counted = counts.remove(key).unwrap_or((0, 0));
            assert_eq!((lane.rows, lane.bytes), counted, "counters of {key:?}");
            let under_way = planner.calls.values().filter(|call| call.lane == *key).count();
            assert_eq!(lane.calls, under_way, "calls of {key:?}");
        }
        assert!(counts.is_empty(), "what is in memory has a lane: {counts:?}");
        let bytes: usize = rows.iter().map(|item| item.bytes).sum();
        assert_eq!(planner.bytes, bytes, "bytes in memory");
        let mut known: Vec<i64> = rows.iter().map(|item| item.key.seq).collect();
        known.extend(planner.store.seqs());
        let set: BTreeSet<i64> = known.iter().copied().collect();
        assert_eq!(set.len(), known.len(), "a row is in one place");
        assert_eq!(planner.known.iter().copied().collect::<BTreeSet<_>>(), set, "known rows");
        let rows_most = settings.rows_max + settings.batch_rows;
        assert!(known.len() <= rows_most, "{} rows in memory", known.len());
        let bytes_most = settings.bytes_max + 2 * settings.batch_bytes;
        assert!(bytes <= bytes_most, "{bytes} bytes in memory");
    }
}
