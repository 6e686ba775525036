//! What can be read off a running relay: by the HTTP port, and by services that embed it.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    Counts,
    meters::{Live, Meters, Standstill, TurnState},
    outages::Outage,
};
use crate::port::DestinationOutage;

/// The relay's task comes round once a second: after so long without it is stuck. As the consumer's.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// What is out for longer keeps a relay from being ready. As the consumer's.
const OUT_MAX: Duration = Duration::from_secs(10);

/// What a person has to mend, by the name that its sentence begins with.
const NAMES: [&str; 3] = ["sequence_behind", "id_shared", "forbidden"];

/// Everything that can be read off a relay while it runs. Cheap to clone; reading takes no lock that the relay's
/// work waits for, and asks neither the database nor Kafka.
///
/// ```no_run
/// # fn mounted(readings: outbox_relay::telemetry::Readings) -> (u16, String) {
/// // In a service with a port of its own: set `http.listen` to "off" and mount these.
/// let metrics: String = readings.prometheus();
/// let status = if readings.readiness().ready { 200 } else { 503 };
/// # (status, metrics)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Readings(pub(super) Arc<Meters>);

/// Whether a relay is ready, and if not, why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Readiness {
    /// It ships, or stands by while another does.
    pub ready: bool,
    /// Whose turn it is: `own`, `others` or `unknown`.
    pub turn: &'static str,
    /// The same for people.
    pub sentence: String,
    /// What keeps it from being ready.
    pub reasons: Vec<Unready>,
}

/// One thing that keeps a relay from being ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Unready {
    /// `database_outage`, `kafka_outage`, `destination_outage`, `outage`, `sequence_behind`, `id_shared`, `forbidden`, `standstill`, `lease_over`,
    /// `starting`, `stuck`, `ending`, `ended`.
    pub reason: &'static str,
    /// For people.
    pub sentence: String,
}

impl Unready {
    fn new(reason: &'static str, sentence: impl Into<String>) -> Self {
        Self { reason, sentence: sentence.into() }
    }
}

impl Readings {
    pub(crate) fn of(meters: &Arc<Meters>) -> Self {
        Self(Arc::clone(meters))
    }

    /// Which outbox it is: the database's name, and the schema's where one is configured; the name of SQLite's file.
    pub fn outbox(&self) -> &str {
        &self.0.outbox
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    /// Where the HTTP port listens, once it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.0.http.get().copied()
    }

    /// Whether the relay's task comes round; false only when starting the process anew is right. Before it runs and
    /// after it ended there is nothing to restart.
    pub fn live(&self) -> bool {
        stuck(&self.0.live()).is_none()
    }

    /// Whether it is ready: it ships, or stands by while another has the turn.
    pub fn readiness(&self) -> Readiness {
        Self::readiness_of(&self.0, &self.0.live())
    }

    pub(super) fn readiness_of(meters: &Meters, live: &Live) -> Readiness {
        let (turn, sentence) = turn(live);
        let reasons = if live.off {
            Vec::new()
        } else if live.ended {
            vec![Unready::new("ended", "the relay has ended")]
        } else if live.at.is_none() {
            vec![Unready::new("starting", "the relay has not started yet")]
        } else if live.ending {
            let sentence =
                "the relay is shutting down: the batch in flight is marked, nothing new starts";
            vec![Unready::new("ending", sentence)]
        } else if let Some(sentence) = stuck(live) {
            vec![Unready::new("stuck", sentence)]
        } else {
            at_work(meters, live)
        };
        Readiness { ready: reasons.is_empty(), turn, sentence, reasons }
    }
}

/// What keeps a relay that runs from its work.
fn at_work(meters: &Meters, live: &Live) -> Vec<Unready> {
    let database = meters.troubles.database_outage().filter(|outage| outage.lasts() > OUT_MAX);
    let mut reasons = Vec::from_iter(database.map(|outage| out("database", &outage)));
    match &live.turn {
        TurnState::Own(_) => {
            let kafka = meters.troubles.kafka_outage().filter(|outage| outage.lasts() > OUT_MAX);
            reasons.extend(kafka.map(|outage| out("kafka", &outage)));
            let destinations = meters.destination_outages().into_iter();
            let lasting = destinations.filter(|outage| outage.lasts() > OUT_MAX);
            reasons.extend(lasting.map(|outage| destination_out(&outage)));
            let standstill = live.standstill.as_ref().and_then(still);
            reasons.extend(standstill.filter(|it| reasons.is_empty() || it.reason != "outage"));
            // Of all else the standstill says it: nothing is shipped.
            let topics = live.forbidden().filter(|it| it.resource == "topic");
            reasons.extend(topics.map(|it| Unready::new("forbidden", it.to_string())));
        }
        TurnState::Others { until, .. } => {
            let over = Instant::now().saturating_duration_since(*until);
            if over > OUT_MAX && reasons.is_empty() {
                let sentence = format!(
                    "the lease of the previous relay expired {over:.0?} ago, and this relay has \
                     not acquired it; check that the database is reachable"
                );
                reasons.push(Unready::new("lease_over", sentence));
            }
        }
        TurnState::Unknown if reasons.is_empty() => {
            let sentence = "the relay does not know yet who holds the lease; check that the database is \
                 reachable";
            reasons.push(Unready::new("starting", sentence));
        }
        TurnState::Unknown => {}
    }
    reasons
}

fn destination_out(outage: &DestinationOutage) -> Unready {
    let DestinationOutage { destination, error, .. } = outage;
    let sentence = format!(
        "destination {destination} has been down for {:.0?}; retrying automatically, nothing is lost: {error}",
        outage.lasts()
    );
    Unready::new("destination_outage", sentence)
}

fn out(what: &str, outage: &Outage) -> Unready {
    let (lasts, error) = (outage.lasts(), &outage.error);
    let sentence = |name: &str| {
        format!(
            "{name} has been down for {lasts:.0?}; retrying automatically, nothing is lost: {error}"
        )
    };
    match what {
        "database" => Unready::new("database_outage", sentence("the database")),
        _ => Unready::new("kafka_outage", sentence("Kafka")),
    }
}

/// What keeps the relay that has the turn from shipping, by name.
pub(super) fn standstill_name(standstill: &Standstill) -> &'static str {
    if standstill.outage {
        return "outage";
    }
    let named = |name: &&&str| standstill.why.starts_with(&format!("{name}: "));
    NAMES.iter().find(named).unwrap_or(&"standstill")
}

fn still(standstill: &Standstill) -> Option<Unready> {
    let lasts = !standstill.outage || standstill.since.elapsed() > OUT_MAX;
    lasts.then(|| Unready::new(standstill_name(standstill), standstill.why.clone()))
}

/// Why the process is of no use any more.
fn stuck(live: &Live) -> Option<String> {
    let silence = live.at?.elapsed();
    (silence > SILENCE_MAX).then(|| {
        format!(
            "the relay's task has been blocked for {silence:.0?}: the machine is overloaded, or \
             the thread is blocked"
        )
    })
}

/// Whose turn it is, by name and for people.
fn turn(live: &Live) -> (&'static str, String) {
    match &live.turn {
        _ if live.off => ("unknown", "the relay is disabled: `relay.enabled` is false".to_owned()),
        TurnState::Unknown => ("unknown", "the holder of the lease is unknown".to_owned()),
        TurnState::Own(_) => ("own", "this relay is active".to_owned()),
        TurnState::Others { holder, until } => {
            let left = until.saturating_duration_since(Instant::now());
            let sentence = format!(
                "{holder} is active, its lease expires in {left:.0?} unless renewed; this relay \
                 is on standby"
            );
            ("others", sentence)
        }
    }
}
