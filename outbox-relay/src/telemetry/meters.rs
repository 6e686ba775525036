//! What a relay writes down while it works, and [`Readings`](super::Readings) are made of.
//!
//! Nothing here is written per row: a batch, a turn or a second at a time. Numbers are atomic; what is more than a
//! number is replaced as a whole.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use service_kit::{
    Counter,
    telemetry::{EVENTS, Histogram, Scale},
};

use super::{Counters, Troubles, destinations::DestinationMeters};
use crate::{
    deadline::Deadline,
    port::{DestinationOutage, Reading},
    sink::Forbidden,
};

/// What Kafka is called among the destinations; no other has this name.
const KAFKA: &str = "kafka";

/// While rows wait for a right, one of them is tried every ten seconds or so.
const FORBIDDEN_FOR: Duration = Duration::from_secs(30);

/// What one relay has measured of itself.
#[derive(Debug)]
pub(crate) struct Meters {
    /// Which outbox it ships.
    pub(crate) outbox: String,
    pub(crate) counters: Arc<Counters>,
    pub(crate) troubles: Arc<Troubles>,
    /// By how much the largest number of a row has grown.
    pub(crate) appended: Counter,
    /// Looks at the outbox for metrics that went well.
    pub(crate) readings: Counter,
    pub(crate) batch_rows: Histogram,
    /// Whose rows count when they are marked, and whose delay is that of the oldest row of each batch.
    pub(crate) kafka: DestinationMeters,
    /// All other destinations, by their number.
    pub(crate) destinations: Vec<DestinationMeters>,
    pub(crate) begun: SystemTime,
    /// Where the HTTP port listens.
    pub(crate) http: OnceLock<SocketAddr>,
    /// Every append on this database is told, as far as is known.
    pub(crate) listens: AtomicBool,
    /// Somebody reads what metrics tell of the outbox, so that it is worth a look.
    wanted: AtomicBool,
    live: Mutex<Live>,
}

/// How things are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// When the relay's task last came round; nothing before it ran and after it ended.
    pub(crate) at: Option<Instant>,
    /// It was asked to end.
    pub(crate) ending: bool,
    pub(crate) ended: bool,
    /// `relay.enabled` is false: there is nothing to do.
    pub(crate) off: bool,
    pub(crate) turn: TurnState,
    /// Why nothing is shipped though this relay has the turn.
    pub(crate) standstill: Option<Standstill>,
    /// What Kafka does not allow the user, and when it last said so.
    pub(crate) forbidden: Vec<(Forbidden, Instant)>,
    /// What the last look at the outbox has found, and when; nothing after one that failed.
    pub(crate) reading: Option<(Instant, Reading)>,
    /// The largest number of a row that was ever seen.
    newest: Option<i64>,
}

/// Whose turn it is, as far as this relay knows.
#[derive(Clone, Debug, Default)]
pub(crate) enum TurnState {
    /// It has not asked yet, or not since it lost its own.
    #[default]
    Unknown,
    /// Its own, for as long as the lease lasts.
    Own(Deadline),
    /// Another's, whose lease ends then unless it is prolonged.
    Others { holder: String, until: Instant },
}

/// Why nothing is shipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Standstill {
    pub(crate) since: Instant,
    pub(crate) why: String,
    /// It may pass by itself.
    pub(crate) outage: bool,
}

impl Live {
    /// What Kafka does not allow the user. Where no row has met it for long none may be left that would.
    pub(super) fn forbidden(&self) -> impl Iterator<Item = &Forbidden> {
        self.forbidden.iter().filter(|(_, at)| at.elapsed() < FORBIDDEN_FOR).map(|(it, _)| it)
    }
}

impl Meters {
    pub(crate) fn new(outbox: String, destinations: impl IntoIterator<Item = String>) -> Arc<Self> {
        Arc::new(Self {
            outbox,
            counters: Arc::default(),
            troubles: Arc::default(),
            appended: Counter::default(),
            readings: Counter::default(),
            batch_rows: Histogram::new(Scale::Whole, EVENTS),
            kafka: DestinationMeters::new(KAFKA),
            destinations: destinations.into_iter().map(DestinationMeters::new).collect(),
            begun: SystemTime::now(),
            http: OnceLock::new(),
            listens: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            live: Mutex::default(),
        })
    }

    /// The relay's task has come round.
    pub(crate) fn tick(&self) {
        self.lock().at = Some(Instant::now());
    }

    /// The relay was asked to end.
    pub(crate) fn begin_shutdown(&self) {
        self.lock().ending = true;
    }

    /// The relay has ended.
    pub(crate) fn end(&self) {
        *self.lock() = Live { ended: true, ..Live::default() };
    }

    /// This relay has the turn.
    pub(crate) fn has_turn(&self, until: Deadline) {
        self.lock().turn = TurnState::Own(until);
    }

    /// It has it no longer.
    pub(crate) fn turn_is_over(&self) {
        let mut live = self.lock();
        live.turn = TurnState::Unknown;
        live.standstill = None;
        live.forbidden.clear();
        drop(live);
        self.troubles.kafka_unused();
        self.destinations.iter().for_each(|destination| destination.set_outages(Vec::new()));
    }

    /// Another has it.
    pub(crate) fn stands_by(&self, holder: &str, left: Duration) {
        let now = Instant::now();
        let until = now.checked_add(left).unwrap_or(now);
        self.lock().turn = TurnState::Others { holder: holder.to_owned(), until };
    }

    /// Why nothing is shipped, or that something is. What lasts has begun when it was first said.
    pub(crate) fn stands_still(&self, why: Option<(&str, bool)>) {
        let mut live = self.lock();
        live.standstill = why.map(|(why, outage)| {
            let before = live.standstill.as_ref().filter(|before| before.outage == outage);
            let since = before.map_or_else(Instant::now, |before| before.since);
            Standstill { since, why: why.to_owned(), outage }
        });
    }

    /// Kafka does not allow this; `false` when that is known.
    pub(crate) fn note_forbidden(&self, forbidden: Forbidden) -> bool {
        let (mut live, now) = (self.lock(), Instant::now());
        if let Some((_, at)) = live.forbidden.iter_mut().find(|(known, _)| *known == forbidden) {
            *at = now;
            return false;
        }
        live.forbidden.push((forbidden, now));
        true
    }

    /// It allows all of this kind, or the one of this name; `true` when it has not before.
    pub(crate) fn note_allowed(&self, resource: &str, name: Option<&str>) -> bool {
        let mut live = self.lock();
        let before = live.forbidden.len();
        let other =
            |it: &Forbidden| it.resource != resource || name.is_some_and(|name| *it.name != *name);
        live.forbidden.retain(|(it, _)| other(it));
        live.forbidden.len() < before
    }

    pub(crate) fn is_any_forbidden(&self) -> bool {
        !self.lock().forbidden.is_empty()
    }

    /// Kafka and all others.
    pub(super) fn all_destinations(&self) -> impl Iterator<Item = &DestinationMeters> {
        std::iter::once(&self.kafka).chain(&self.destinations)
    }

    /// The destinations that are down, or parts of them.
    pub(crate) fn destination_outages(&self) -> Vec<DestinationOutage> {
        self.destinations.iter().flat_map(DestinationMeters::outages).collect()
    }

    /// The relay is switched off by its configuration.
    pub(crate) fn switch_off(&self) {
        self.lock().off = true;
    }

    /// Rows of a batch were delivered to Kafka and marked.
    pub(crate) fn delivered(&self, rows: usize, appended: Option<Instant>) {
        if rows == 0 {
            return;
        }
        self.batch_rows.observe(rows as u64);
        self.kafka.note_delivery(rows, appended.map(|appended| appended.elapsed()));
    }

    /// What a look at the outbox has found; `None` when it failed.
    pub(crate) fn publish_reading(&self, reading: Option<Reading>) {
        self.readings.add(u64::from(reading.is_some()));
        let mut live = self.lock();
        if let Some(newest) = reading.as_ref().and_then(|reading| reading.newest) {
            let before = live.newest.unwrap_or(newest);
            self.appended.add(newest.saturating_sub(before).max(0).unsigned_abs());
            // Rows that are gone, by retention or by a failover, make nothing appended anew of what comes.
            live.newest = Some(newest);
        }
        live.reading = reading.map(|reading| (Instant::now(), reading));
    }

    /// Somebody will read what metrics tell of the outbox.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// How things are.
    pub(crate) fn live(&self) -> Live {
        self.lock().clone()
    }

    #[cfg(test)]
    pub(super) fn set_turn(&self, turn: TurnState) {
        self.lock().turn = turn;
    }

    /// As if a standstill had begun so long ago.
    #[cfg(test)]
    pub(super) fn age_standstill(&self, by: Duration) {
        let mut live = self.lock();
        if let Some(standstill) = &mut live.standstill {
            standstill.since = standstill.since.checked_sub(by).unwrap_or(standstill.since);
        }
    }

    /// As if the task had come round so long ago.
    #[cfg(test)]
    pub(super) fn age_tick(&self, by: Duration) {
        self.lock().at = Instant::now().checked_sub(by);
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
