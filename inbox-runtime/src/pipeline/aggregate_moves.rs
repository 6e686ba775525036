//! A warning for aggregates that are on two partitions, where nothing keeps their order: partitions were
//! added under a running topic (E5), or producers partition differently (C5, E6).
//!
//! A sample, and a memory that forgets: it decides nothing. It sees what one process reads; `check` sees
//! partitions that were added.

use std::time::{Duration, Instant};

use moka::sync::Cache;
use outbox_core::TopicPartition;

use super::Delivered;
use crate::telemetry::{Counters, Signal};

/// One aggregate in so many is watched, the same ones on every partition.
const ONE_IN: u8 = 16;
/// Aggregates that are remembered, at some 350 bytes each.
const REMEMBERED_MAX: u64 = 8_192;
/// The warning is given once in this time.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// Where the aggregates of the sample were seen last.
#[derive(Debug)]
pub(super) struct AggregateMoves {
    seen: Cache<[u8; 16], i32>,
    told_at: Option<Instant>,
}

/// An aggregate that was seen on another partition before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AggregateMove {
    pub(super) before: i32,
    /// Whether it is time to say so.
    pub(super) tell: bool,
}

impl AggregateMoves {
    pub(super) fn new() -> Self {
        Self { seen: Cache::new(REMEMBERED_MAX), told_at: None }
    }

    /// Whether the event's aggregate is one of the sample. No lock, no look-up.
    pub(super) fn watches(item: &Delivered) -> bool {
        item.aggregate[15].is_multiple_of(ONE_IN)
    }

    /// Counts an aggregate that was seen on another partition before, and tells of it now and then.
    pub(super) fn watch(&mut self, place: &TopicPartition, item: &Delivered, counters: &Counters) {
        let Some(aggregate_move) = self.note(place, item) else { return };
        counters.aggregate_moves.add(1);
        if aggregate_move.tell {
            let (partition, offset) = (place.clone(), item.offset.0);
            Signal::AggregateMoved { partition, offset, before: i64::from(aggregate_move.before) }
                .emit();
        }
    }

    /// Notes where an aggregate of the sample was seen. The key is within its topic.
    pub(super) fn note(
        &mut self,
        place: &TopicPartition,
        item: &Delivered,
    ) -> Option<AggregateMove> {
        let key = within(&place.topic, item.aggregate);
        let before = self.seen.get(&key);
        if before == Some(place.partition) {
            return None;
        }
        self.seen.insert(key, place.partition);
        let before = before?;
        let now = Instant::now();
        let tell = self.told_at.is_none_or(|at| now.duration_since(at) >= TOLD_EVERY);
        if tell {
            self.told_at = Some(now);
        }
        Some(AggregateMove { before, tell })
    }
}

/// The same key on two topics is two aggregates.
fn within(topic: &str, mut aggregate: [u8; 16]) -> [u8; 16] {
    let topic = xxhash_rust::xxh3::xxh3_128(topic.as_bytes()).to_be_bytes();
    for (byte, of_topic) in aggregate.iter_mut().zip(topic) {
        *byte ^= of_topic;
    }
    aggregate
}
