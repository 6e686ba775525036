//! The first event of each lane that is at work: since when it is the first, and what keeps it.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use inbox_engine::internal::{Batch, BatchOutcome, Lane, PartitionId, TransactionFault};
use outbox_core::TopicPartition;

use super::Delivery;
use crate::telemetry::{HeldLane, Signal};

/// An event that is the first of its lane for longer holds it, and everybody is told.
const HOLDS_AFTER: Duration = Duration::from_secs(5);
/// From then on the log tells it, and again after as long.
const TOLD_AFTER: Duration = Duration::from_secs(10);
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// The first events of lanes, by partition and lane. Written once for each lane of a transaction.
#[derive(Debug, Default)]
pub(super) struct Heads(BTreeMap<(PartitionId, Lane), Head>);

#[derive(Debug)]
struct Head {
    delivery: Arc<Delivery>,
    attempt: u32,
    /// Events of its transaction: the others may be what takes long.
    together: usize,
    since: SystemTime,
    told: Option<SystemTime>,
    /// How often it met a conflict alone.
    conflicts: u64,
    error: Option<String>,
}

impl Heads {
    /// A transaction begins.
    pub(super) fn note_start(&mut self, batch: &Batch<Arc<Delivery>>, now: SystemTime) {
        let mut lane = None;
        for item in &batch.items {
            // By lane and offset: the first of each lane.
            if lane.replace(item.lane) == Some(item.lane) {
                continue;
            }
            let head = self
                .0
                .entry((batch.partition, item.lane))
                .or_insert_with(|| Head::new(Arc::clone(&item.event), now));
            if head.delivery.offset != item.offset {
                *head = Head::new(Arc::clone(&item.event), now);
            }
            head.attempt = item.attempts + 1;
            head.together = batch.items.len();
        }
    }

    /// It has ended. An event that meets conflicts alone is told from the second one on.
    pub(super) fn note_end(
        &mut self,
        place: &TopicPartition,
        batch: &Batch<Arc<Delivery>>,
        outcome: &BatchOutcome,
    ) {
        let error = match outcome {
            BatchOutcome::Full(error)
            | BatchOutcome::Fault(
                TransactionFault::Broken(error)
                | TransactionFault::Conflict(error)
                | TransactionFault::Locked { error, .. }
                | TransactionFault::Blocked(error)
                | TransactionFault::Outage(error)
                | TransactionFault::Unreached(error),
            ) => error,
            BatchOutcome::Failed(failures) => {
                for failure in failures {
                    let items = failure.index.map_or(&*batch.items, |at| &batch.items[at..=at]);
                    for item in items {
                        let head = self.0.get_mut(&(batch.partition, item.lane));
                        if let Some(head) = head.filter(|head| head.delivery.offset == item.offset)
                        {
                            head.error = Some(failure.error.clone());
                        }
                    }
                }
                return;
            }
            // What follows is read from the database anew.
            BatchOutcome::Committed(_)
            | BatchOutcome::Fault(TransactionFault::Unknown(_) | TransactionFault::Fenced)
            | BatchOutcome::Reused(_) => {
                for step in &batch.lanes {
                    self.0.remove(&(batch.partition, step.lane));
                }
                return;
            }
        };
        let alone = batch.items.len() == 1
            && matches!(
                outcome,
                BatchOutcome::Fault(
                    TransactionFault::Conflict(_) | TransactionFault::Locked { .. }
                )
            );
        for step in &batch.lanes {
            let Some(head) = self.0.get_mut(&(batch.partition, step.lane)) else { continue };
            head.error = Some(error.clone());
            head.conflicts += u64::from(alone);
            if alone && head.conflicts > 1 {
                Signal::ConflictAgain {
                    partition: place.clone(),
                    offset: head.delivery.offset.0,
                    event_type: head.event_type(),
                    event_id: head.event_id(),
                    aggregate: head.aggregate(),
                    times: head.conflicts,
                    error: error.clone(),
                }
                .emit();
            }
        }
    }

    /// Nothing of a partition is known any more.
    pub(super) fn forget(&mut self, id: PartitionId) {
        self.0.retain(|(of, _), _| *of != id);
    }

    pub(super) fn retain(&mut self, has: impl Fn(PartitionId) -> bool) {
        self.0.retain(|(id, _), _| has(*id));
    }

    /// What has been the first of its lane longest, and the lanes that are held; the log is told of these now and
    /// then, unless it is `told` already why.
    pub(super) fn of(
        &mut self,
        id: PartitionId,
        place: &TopicPartition,
        now: SystemTime,
        told: bool,
    ) -> (Duration, Vec<HeldLane>) {
        let (mut oldest, mut held) = (Duration::ZERO, Vec::new());
        for ((_, lane), head) in self.0.range_mut((id, Lane(0))..=(id, Lane(u16::MAX))) {
            let age = since(head.since, now);
            oldest = oldest.max(age);
            if age >= HOLDS_AFTER {
                if told {
                    // Nor when it is over: what was held goes on then.
                    head.told = Some(now);
                } else {
                    head.tell(place, *lane, age, now);
                }
                held.push(head.reading(*lane));
            }
        }
        (oldest, held)
    }
}

impl Head {
    fn new(delivery: Arc<Delivery>, now: SystemTime) -> Self {
        Self {
            delivery,
            attempt: 1,
            together: 1,
            since: now,
            told: None,
            conflicts: 0,
            error: None,
        }
    }

    fn tell(&mut self, place: &TopicPartition, lane: Lane, age: Duration, now: SystemTime) {
        let again = self.told.is_none_or(|told| since(told, now) >= TOLD_EVERY);
        if age < TOLD_AFTER || !again {
            return;
        }
        self.told = Some(now);
        Signal::LaneHeld {
            partition: place.clone(),
            lane: u64::from(lane.0),
            offset: self.delivery.offset.0,
            event_type: self.event_type(),
            event_id: self.event_id(),
            aggregate: self.aggregate(),
            attempt: Some(self.attempt),
            seconds: age.as_secs(),
            error: self.met().unwrap_or_else(|| "it has not finished yet".into()),
        }
        .emit();
    }

    fn reading(&self, lane: Lane) -> HeldLane {
        let since = self.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        HeldLane {
            lane: lane.0,
            offset: self.delivery.offset.0,
            event_type: self.event_type(),
            event_id: self.event_id(),
            aggregate: self.aggregate(),
            attempt: self.attempt,
            since_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            error: self.met(),
        }
    }

    /// What it met; of an event among others that has met nothing it is not known whether it is what takes long.
    fn met(&self) -> Option<String> {
        let others = (self.together > 1).then(|| {
            format!(
                "its transaction of {} events has not finished yet; any of them may be the slow \
                 one",
                self.together
            )
        });
        self.error.clone().or(others)
    }

    fn event_type(&self) -> String {
        self.delivery.event.as_ref().map_or_else(|_| "?".into(), |it| it.event_type.to_string())
    }

    fn event_id(&self) -> String {
        self.delivery.id()
    }

    fn aggregate(&self) -> String {
        self.delivery.event.as_ref().map_or_else(|_| "?".into(), |it| it.aggregate.to_string())
    }
}

fn since(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::{
        Epoch, Failure, Generation, Item, Kind, LaneMove, LeaderEpoch, Mode, NextOffset, Offset,
        Tally,
    };

    use outbox_core::{ReadError, Record};

    use super::*;

    fn delivery(offset: i64) -> Arc<Delivery> {
        let record = Record { key: None, headers: Vec::new(), payload: None, timestamp_ms: None };
        let partition = TopicPartition { topic: "orders".into(), partition: 3 };
        let event = Err(ReadError::TooLarge { bytes: 0, max: 0 });
        Arc::new(Delivery {
            partition,
            offset: Offset(offset),
            record,
            excerpt: None,
            event,
            read_as: outbox_core::internal::ReadAs::default(),
        })
    }

    fn batch(lane: u16, offset: i64, attempts: u32) -> Batch<Arc<Delivery>> {
        let lane = Lane(lane);
        let item = Item {
            offset: Offset(offset),
            leader_epoch: LeaderEpoch::UNKNOWN,
            lane,
            id: [1; 16],
            fingerprint: [2; 16],
            aggregate: [3; 16],
            kind: Kind { route: 0, whole_run: false, one_per_aggregate: true },
            bytes: 1,
            attempts,
            doomed: None,
            bare: false,
            suspect: false,
            event: delivery(offset),
        };
        let step = LaneMove {
            lane,
            prev: Offset(-1),
            new: Offset(offset),
            leader_epoch: LeaderEpoch::UNKNOWN,
        };
        Batch {
            partition: PartitionId(1),
            generation: Generation(1),
            epoch: Epoch(1),
            watermark: NextOffset(0),
            remapped_below: NextOffset(0),
            mode: Mode::Together,
            whole: true,
            marked: false,
            lanes: vec![step],
            items: vec![item],
        }
    }

    #[test]
    fn an_event_among_others_is_not_called_the_cause() {
        let place = TopicPartition { topic: "orders".into(), partition: 3 };
        let (mut heads, start) = (Heads::default(), SystemTime::UNIX_EPOCH);
        let mut together = batch(2, 7, 0);
        together.items.extend(batch(3, 8, 0).items);
        heads.note_start(&together, start);
        let mut errors = |now| {
            let (_, held) = heads.of(PartitionId(1), &place, now, true);
            held.into_iter().map(|lane| lane.error).collect::<Vec<_>>()
        };
        let expected =
            "its transaction of 2 events has not finished yet; any of them may be the slow one";
        assert_eq!(
            errors(start + HOLDS_AFTER),
            [Some(expected.to_owned()), Some(expected.to_owned())]
        );
        heads.note_start(&batch(2, 7, 1), start);
        let (_, held) = heads.of(PartitionId(1), &place, start + HOLDS_AFTER, true);
        assert_eq!(held[0].error, None, "it is alone now");
    }

    #[test]
    fn an_event_that_holds_its_lane_is_told_with_its_last_error() {
        let place = TopicPartition { topic: "orders".into(), partition: 3 };
        let (mut heads, begun) = (Heads::default(), SystemTime::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let id = PartitionId(1);
        let lines = service_kit::testing::capture_log(|| {
            heads.note_start(&batch(4, 17, 0), begun);
            assert_eq!(heads.of(id, &place, at(4), false), (Duration::from_secs(4), vec![]));
            let failed = BatchOutcome::Failed(vec![Failure::retry(0, "no such account".into())]);
            heads.note_end(&place, &batch(4, 17, 0), &failed);
            heads.note_start(&batch(4, 17, 1), at(5));
            let (oldest, held) = heads.of(id, &place, at(9), false);
            assert_eq!(oldest, Duration::from_secs(9));
            assert_eq!((held[0].lane, held[0].offset, held[0].attempt), (4, 17, 2));
            assert_eq!(held[0].error.as_deref(), Some("no such account"));
            heads.of(id, &place, at(10), false);
            heads.of(id, &place, at(69), false);
        });
        assert_eq!(lines.len(), 1, "once, and again after a minute: {lines:?}");
        heads.note_end(&place, &batch(4, 17, 1), &BatchOutcome::Committed(Tally::default()));
        assert_eq!(heads.of(id, &place, at(80), false), (Duration::ZERO, vec![]));
    }

    #[test]
    fn what_an_outage_holds_is_known_and_not_told_for_each_lane() {
        let place = TopicPartition { topic: "orders".into(), partition: 3 };
        let (mut heads, begun) = (Heads::default(), SystemTime::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let lines = service_kit::testing::capture_log(|| {
            heads.note_start(&batch(4, 17, 0), begun);
            assert_eq!(heads.of(PartitionId(1), &place, at(20), true).1.len(), 1);
            heads.of(PartitionId(1), &place, at(21), false);
        });
        assert_eq!(lines, []);
    }

    #[test]
    fn from_the_second_on_conflicts_of_one_event_are_told() {
        let place = TopicPartition { topic: "orders".into(), partition: 3 };
        let mut heads = Heads::default();
        let conflict = BatchOutcome::Fault(TransactionFault::Conflict("deadlock detected".into()));
        let lines = service_kit::testing::capture_log(|| {
            for _ in 0..3 {
                heads.note_start(&batch(4, 17, 0), SystemTime::now());
                heads.note_end(&place, &batch(4, 17, 0), &conflict);
            }
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
    }
}
