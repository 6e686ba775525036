//! A look from outside at partitions that say of themselves that they move: clocks, and offsets that the
//! brokers and the database confirm. It trusts nobody, and stops nothing: it gives what it sees a name, so that
//! readiness and alerts show it.

use std::time::{Duration, Instant};

use inbox_engine::internal::{NextOffset, Snapshot, Standstill};
use inbox_store::internal::port::Owners;
use kafka_kit::internal::LogEnds;

use super::driver::Driver;

/// The watermark is written, or checked, every few seconds.
const UNCONFIRMED_MAX: Duration = Duration::from_secs(30);
/// A producer's transaction is ended by its coordinator after a minute, unless somebody allows it more.
const UPSTREAM_MAX: Duration = Duration::from_secs(30);
/// Beyond what one event may take by the limits: its handler, its statements, its wait for another attempt.
const STILL_MAX: Duration = Duration::from_mins(1);

/// What was seen of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressWatch {
    /// Watermark, position, calls of handlers.
    signs: (NextOffset, NextOffset, u64),
    moved_at: Instant,
    /// Where the end that can be read stands below the end of the log, and since when.
    held: Option<(NextOffset, Instant)>,
    /// Since when it says that it moves.
    moves_since: Instant,
}

/// What is to be seen of a partition now.
#[derive(Clone, Debug)]
pub(super) struct Observation<'s> {
    pub(super) snapshot: &'s Snapshot,
    /// When the database last confirmed the watermark.
    pub(super) confirmed_at: Option<Instant>,
    /// Calls of handlers that have come back, and what is to be said of one that does not.
    pub(super) calls: u64,
    pub(super) overdue: Option<String>,
    pub(super) ends: LogEnds,
    /// What is to be said of a topic that is not there, or too small.
    pub(super) missing: Option<String>,
    /// What is to be said of a topic that may not be read.
    pub(super) forbidden: Option<String>,
    /// What is to be said of a batch that cannot be read.
    pub(super) unread: Option<String>,
    /// How long nothing may move while one event takes all that the limits allow.
    pub(super) event_max: Duration,
}

impl ProgressWatch {
    pub(super) fn new(now: Instant) -> Self {
        let signs = (NextOffset(i64::MIN), NextOffset(i64::MIN), 0);
        Self { signs, moved_at: now, held: None, moves_since: now }
    }

    /// Why it stands still, as far as that can be seen.
    pub(super) fn observe(
        &mut self,
        observation: Observation<'_>,
        now: Instant,
    ) -> Option<Standstill> {
        let Observation {
            snapshot,
            confirmed_at,
            calls,
            overdue,
            ends,
            missing,
            forbidden,
            unread,
            event_max,
        } = observation;
        if snapshot.standstill.as_ref().is_some_and(|reason| !reason.seen_from_outside()) {
            // It says so itself. When it moves again, the clocks begin anew.
            *self = Self::new(now);
            return None;
        }
        let since = |at: Instant| now.saturating_duration_since(at.max(self.moves_since));
        let signs = (snapshot.watermark, snapshot.position, calls);
        if signs != self.signs {
            (self.signs, self.moved_at) = (signs, now);
        }
        self.held = self.hold(snapshot.position, ends, now);
        if let Some(sentence) = missing {
            return Some(Standstill::TopicMissing(sentence));
        }
        if let Some(sentence) = forbidden {
            return Some(Standstill::Forbidden(sentence));
        }
        if let Some(sentence) = unread {
            return Some(Standstill::UnreadableBatch(sentence));
        }
        if since(confirmed_at.unwrap_or(self.moves_since)) > UNCONFIRMED_MAX {
            return Some(unconfirmed());
        }
        if let Some(sentence) = overdue {
            return Some(Standstill::HandlerBlocks(sentence));
        }
        if let Some((stable, at)) = self.held
            && since(at) > UPSTREAM_MAX
        {
            return Some(upstream(stable));
        }
        let unread = ends.stable.is_some_and(|stable| snapshot.watermark < stable);
        let still = since(self.moved_at) > STILL_MAX + event_max;
        (still && (unread || snapshot.waiting > 0)).then(|| no_progress(snapshot, ends))
    }

    /// Everything that can be read was read, and the log goes on.
    fn hold(
        &self,
        position: NextOffset,
        ends: LogEnds,
        now: Instant,
    ) -> Option<(NextOffset, Instant)> {
        let (stable, high) = (ends.stable?, ends.high?);
        if high <= stable || position < stable {
            return None;
        }
        let same = self.held.filter(|(held, _)| *held == stable);
        Some(same.unwrap_or((stable, now)))
    }
}

fn unconfirmed() -> Standstill {
    Standstill::Unconfirmed(format!(
        "the database has neither confirmed nor refused the watermark for more than {} s: its \
         connection may be dead, or the database is overloaded",
        UNCONFIRMED_MAX.as_secs()
    ))
}

fn upstream(stable: NextOffset) -> Standstill {
    Standstill::UpstreamTransaction(format!(
        "everything below offset {0} was read, and Kafka withholds what follows: a producer's \
         transaction that started at {0} has been neither committed nor aborted for more than {1} \
         s; processing resumes when that transaction ends",
        stable.0,
        UPSTREAM_MAX.as_secs()
    ))
}

fn no_progress(snapshot: &Snapshot, ends: LogEnds) -> Standstill {
    let end = ends.stable.map_or_else(|| "unknown".to_owned(), |end| end.0.to_string());
    Standstill::NoProgress(format!(
        "nothing was read or settled for more than {} s, for an unknown reason: the watermark is \
         {}, the next record to arrive {}, the end of the log {end}; {} events wait, {} \
         transactions are open",
        STILL_MAX.as_secs(),
        snapshot.watermark.0,
        snapshot.position.0,
        snapshot.waiting,
        snapshot.open
    ))
}

impl<DB: Owners> Driver<DB> {
    /// Looks at every partition, unless the consumer is about to end.
    pub(super) fn watch(&mut self) {
        if self.ending {
            return;
        }
        let (health, now) = (self.broker.health(), Instant::now());
        let statement = self.work.limits.statement_timeout;
        let retry = Duration::from_millis(self.engine.limits().retry_delay_max);
        let event_max = self.work.attempt_deadline.max(statement) + retry;
        let (mut changed, mut unread_at) = (Vec::new(), Vec::new());
        for snapshot in self.engine.snapshots() {
            let Some(tracked) = self.partitions.get_mut(&snapshot.partition) else { continue };
            let Some((generation, taken)) = &tracked.taken else { continue };
            let unread = health.unread.get(&tracked.place);
            let observation = Observation {
                snapshot: &snapshot,
                confirmed_at: tracked.confirmed_at,
                calls: self.meters.calls.ended_calls(taken.scope.partition_ref),
                overdue: self.meters.calls.overdue(Some(taken.scope.partition_ref), now),
                ends: health.asked.get(&tracked.place).copied().unwrap_or_default(),
                missing: health.missing(&tracked.place, tracked.watch.moves_since, now),
                forbidden: health.forbidden(&tracked.place.topic).map(ToString::to_string),
                unread: unread.map(|batch| batch.sentence.clone()),
                event_max,
            };
            let seen = tracked.watch.observe(observation, now);
            self.engine.handle_observation(snapshot.partition, seen);
            if health.is_other_topic(&tracked.place.topic, taken.topic_id) {
                changed.push((snapshot.partition, *generation));
            }
            unread_at.extend(unread.map(|batch| (snapshot.partition, *generation, batch.at)));
        }
        let now = self.now();
        for (id, generation, at) in unread_at {
            self.engine.handle_unread(id, generation, at, now);
        }
        for (id, generation) in changed {
            self.engine.handle_topic_changed(id, generation, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::PartitionId;

    use super::*;

    struct Scene {
        watch: ProgressWatch,
        snapshot: Snapshot,
        ends: LogEnds,
        missing: Option<String>,
        forbidden: Option<String>,
        unread: Option<String>,
        calls: u64,
        overdue: Option<String>,
        confirmed: bool,
        begun: Instant,
    }

    impl Scene {
        /// Everything below 5 is read and settled.
        fn new() -> Self {
            let (begun, five) = (Instant::now(), NextOffset(5));
            let snapshot = Snapshot {
                partition: PartitionId(0),
                watermark: five,
                committed: None,
                position: five,
                waiting: 0,
                open: 0,
                due: 0,
                bytes: 0,
                paused: false,
                standstill: None,
            };
            let ends = LogEnds { stable: Some(five), high: Some(five) };
            let watch = ProgressWatch::new(begun);
            Self {
                watch,
                snapshot,
                ends,
                missing: None,
                forbidden: None,
                unread: None,
                calls: 0,
                overdue: None,
                confirmed: true,
                begun,
            }
        }

        /// What is seen after so many seconds, looking once a second from `from` on.
        fn seen(&mut self, from: u64, to: u64) -> Option<&'static str> {
            let mut seen = None;
            for second in from..=to {
                let now = self.begun + Duration::from_secs(second);
                let observation = Observation {
                    snapshot: &self.snapshot,
                    confirmed_at: self.confirmed.then_some(now),
                    calls: self.calls,
                    overdue: self.overdue.clone(),
                    ends: self.ends,
                    missing: self.missing.clone(),
                    forbidden: self.forbidden.clone(),
                    unread: self.unread.clone(),
                    event_max: Duration::from_secs(10),
                };
                seen = self.watch.observe(observation, now).map(|reason| reason.name());
            }
            seen
        }
    }

    #[test]
    fn what_is_read_to_its_end_moves() {
        assert_eq!(Scene::new().seen(0, 1_000), None);
    }

    #[test]
    fn a_watermark_that_is_not_confirmed_is_seen() {
        let mut scene = Scene::new();
        scene.confirmed = false;
        assert_eq!(scene.seen(0, 30), None);
        assert_eq!(scene.seen(31, 31), Some("unconfirmed"));
        // What the engine knows itself is told by it, and the clocks begin anew when that is over.
        scene.snapshot.standstill = Some(Standstill::Outage("gone".into()));
        assert_eq!(scene.seen(32, 100), None);
        scene.snapshot.standstill = None;
        assert_eq!(scene.seen(101, 130), None);
        assert_eq!(scene.seen(131, 131), Some("unconfirmed"));
    }

    #[test]
    fn a_topic_that_is_not_there_is_seen_until_it_is() {
        let mut scene = Scene::new();
        scene.missing = Some("it is not there".to_owned());
        assert_eq!(scene.seen(0, 0), Some("topic_missing"));
        scene.missing = None;
        assert_eq!(scene.seen(1, 60), None);
    }

    #[test]
    fn a_topic_that_may_not_be_read_is_seen_at_once_and_ends() {
        let mut scene = Scene::new();
        scene.forbidden = Some("READ".to_owned());
        assert_eq!(scene.seen(0, 0), Some("forbidden"));
        scene.forbidden = None;
        assert_eq!(scene.seen(1, 60), None);
    }

    #[test]
    fn a_batch_that_cannot_be_read_is_seen_until_something_is() {
        let mut scene = Scene::new();
        scene.unread = Some("it is damaged".to_owned());
        assert_eq!(scene.seen(0, 0), Some("unreadable_batch"));
        scene.unread = None;
        assert_eq!(scene.seen(1, 60), None);
    }

    #[test]
    fn an_open_transaction_of_a_producer_is_seen_and_ends() {
        let mut scene = Scene::new();
        scene.ends.high = Some(NextOffset(9));
        assert_eq!(scene.seen(0, 30), None);
        assert_eq!(scene.seen(31, 200), Some("upstream_transaction"));
        // Another one begins at once, further on.
        let ten = NextOffset(10);
        scene.ends = LogEnds { stable: Some(ten), high: Some(NextOffset(12)) };
        (scene.snapshot.watermark, scene.snapshot.position) = (ten, ten);
        assert_eq!(scene.seen(201, 231), None);
        // A broker that does not answer proves nothing.
        scene.ends = LogEnds::default();
        assert_eq!(scene.seen(232, 1_000), None);
    }

    #[test]
    fn a_handler_that_does_not_come_back_is_seen() {
        let mut scene = Scene::new();
        scene.overdue = Some("it blocks its thread".to_owned());
        assert_eq!(scene.seen(0, 0), Some("handler_blocks"));
        scene.overdue = None;
        assert_eq!(scene.seen(1, 60), None);
    }

    #[test]
    fn lag_that_does_not_move_is_seen() {
        let mut scene = Scene::new();
        scene.ends = LogEnds { stable: Some(NextOffset(9)), high: Some(NextOffset(9)) };
        assert_eq!(scene.seen(0, 70), None, "one event may take ten seconds");
        assert_eq!(scene.seen(71, 71), Some("no_progress"));
        scene.snapshot.position = NextOffset(9);
        scene.snapshot.waiting = 4;
        assert_eq!(scene.seen(72, 142), None);
        assert_eq!(scene.seen(143, 143), Some("no_progress"));
        // A handler comes back now and then.
        for second in 144..400 {
            scene.calls += u64::from(second % 60 == 0);
            let stands = (second < 180).then_some("no_progress");
            assert_eq!(scene.seen(second, second), stands, "after {second} s");
        }
    }
}
