//! The one table of all metrics. The part of `docs/relay-reference.md` about them and what is scraped are made from it, so
//! neither can hold what the other does not.

use std::{
    ops::Deref,
    time::{Duration, SystemTime},
};

use service_kit::{
    metrics,
    telemetry::{self, Samples},
};

use super::{
    Readings,
    meters::{Live, Meters, TurnState},
    outages::Outage,
    readings::standstill_name,
};
use crate::port::Reading;

/// What one scrape reads: numbers as they are, and what was told last.
#[derive(Debug)]
pub(super) struct Scrape<'m> {
    meters: &'m Meters,
    live: Live,
}

impl<'m> Scrape<'m> {
    pub(super) fn of(meters: &'m Meters) -> Self {
        Self { meters, live: meters.live() }
    }

    fn outbox(&self) -> &str {
        &self.meters.outbox
    }

    /// What the last look at the outbox has found.
    fn reading(&self) -> Option<&Reading> {
        self.live.reading.as_ref().map(|(_, reading)| reading)
    }
}

impl Deref for Scrape<'_> {
    type Target = Meters;

    fn deref(&self) -> &Meters {
        self.meters
    }
}

metrics! { pub METRICS of Scrape<'_>, Scrape::outbox;
    /// Unsent rows that need no manual action, as of the last poll: before their first attempt (at most 20,000 are counted; `outbox_unsent_span_rows` shows how many more there may be), in retry, overdue after `deliver_after`, or waiting for a topic or a destination. Rows that are set aside, delayed or held behind others have metrics of their own.
    Gauge "outbox_unsent_rows" "rows" [] |m, s| of(m, s, |it| Some(unsent(it)));
    /// From the number of the oldest row before its first attempt to that of the newest row, as of the last look: no fewer rows than wait for one. Rows between them that were sent, or never committed, count, too.
    Gauge "outbox_unsent_span_rows" "rows" [] |m, s| of(m, s, |it| Some(span(it)));
    /// Age of the oldest of these rows at the last poll, from its append or its `deliver_after`; 0 without any.
    Gauge "outbox_oldest_unsent_seconds" "seconds" [] |m, s| of(m, s, oldest_unsent);
    /// Rows that were set aside until a person decides, as of the last look; at most 1,000 are counted.
    Gauge "outbox_set_aside_rows" "rows" [] |m, s| of(m, s, |it| Some(it.set_aside));
    /// Rows that could not be delivered and are tried again by themselves, as of the last look; of the first 1,000 of these and of those that are delayed.
    Gauge "outbox_retrying_rows" "rows" [] |m, s| of(m, s, |it| Some(it.retrying));
    /// Age of the oldest row that has failed and is retried, counted like `outbox_oldest_unsent_seconds`; 0 without any.
    Gauge "outbox_oldest_retry_seconds" "seconds" [] |m, s| of(m, s, |it| Some(it.oldest_retry.unwrap_or_default().as_secs_f64()));
    /// Rows that are not sent before a time of theirs (`deliver_after`), as far as the relay has met them, counted like these.
    Gauge "outbox_delayed_rows" "rows" [] |m, s| of(m, s, |it| Some(it.delayed));
    /// Rows that go by themselves when their topic is there and may be written to, as of the last look; of the first 1,000 of these and of those without a destination.
    Gauge "outbox_without_topic_rows" "rows" [] |m, s| of(m, s, |it| Some(it.without_topic));
    /// Rows that go by themselves when their destination works, counted like these; those that are in the relay's memory wait to be sent.
    Gauge "outbox_without_destination_rows" "rows" [] |m, s| of(m, s, |it| Some(it.without_destination));
    /// Rows that wait behind one of these five kinds, as of the last look; together at most 2,000 are counted.
    Gauge "outbox_held_rows" "rows" [] |m, s| of(m, s, |it| Some(it.held));
    /// Size of `outbox_events` without its indexes, as of the last look. Not on SQLite, where a table's size is not known without reading it.
    Gauge "outbox_table_bytes" "bytes" [] |m, s| of(m, s, |it| it.table_bytes);
    /// Size of its indexes. Not on SQLite.
    Gauge "outbox_index_bytes" "bytes" [] |m, s| of(m, s, |it| it.index_bytes);
    /// 1 while this relay has the turn, and its lease lasts.
    Gauge "outbox_turn_held" "boolean" [] |m, s| s.add(&[], u8::from(has_turn(&m.live)));
    /// What was left of the lease of whoever has the turn, as of the last look; 0 when nobody has it.
    Gauge "outbox_lease_left_seconds" "seconds" [] |m, s| of(m, s, |it| Some(it.lease_left.as_secs_f64()));
    /// 1 while this relay has the turn and ships nothing, with the reason's name: `outage`, `sequence_behind`, `id_shared`, `forbidden`; absent while it ships.
    Gauge "outbox_standstill" "boolean" [reason] |m, s| {
        if let Some(standstill) = &m.live.standstill {
            s.add(&[standstill_name(standstill)], 1);
        }
    };
    /// 1 for each topic and transactional id that Kafka does not let the user write to: `resource` is `topic`, `transactional_id` or `cluster`, `operation` what to grant.
    Gauge "outbox_forbidden" "boolean" [resource name operation] |m, s| {
        for it in m.live.forbidden() {
            s.add(&[it.resource, &it.name, it.operation], 1);
        }
    };
    /// For how long the database or Kafka has not answered this relay; 0 while it does. Kafka's is that of the relay that has the turn.
    Gauge "outbox_outage_seconds" "seconds" [of] |m, s| {
        let lasts = |outage: Option<Outage>| outage.map_or(Duration::ZERO, |outage| outage.lasts());
        s.seconds(&["database"], lasts(m.troubles.database_outage()));
        s.seconds(&["kafka"], lasts(m.troubles.kafka_outage()));
    };
    /// For how long a destination other than Kafka has not worked, as this relay meets it while it has the turn; 0 while it works. Where its address is one by template, any of its addresses.
    Gauge "outbox_destination_outage_seconds" "seconds" [destination] |m, s| {
        for destination in &m.destinations {
            s.seconds(&[&destination.name], destination.out_for());
        }
    };
    /// 1 when `/health/ready` answers 200.
    Gauge "outbox_ready" "boolean" [] |m, s| {
        s.add(&[], u8::from(Readings::readiness_of(m.meters, &m.live).ready));
    };
    /// Rows that were appended while this relay runs, by how far the largest number has moved since the first look that found a row: what was never committed counts, too.
    Counter "outbox_appended_rows_total" "rows" [] |m, s| s.add(&[], m.appended.read());
    /// Rows that this relay has delivered: those for Kafka when they are marked, others when the destination has taken them.
    Counter "outbox_delivered_rows_total" "rows" [destination] |m, s| {
        for destination in m.all_destinations() {
            s.add(&[&destination.name], destination.rows.read());
        }
    };
    /// Batches that it has delivered to Kafka and marked.
    Counter "outbox_batches_total" "batches" [] |m, s| s.add(&[], m.counters.batches.read());
    /// Rows of such a batch.
    Histogram "outbox_batch_rows" "rows" [] |m, s| s.distribution(&[], &m.batch_rows.read());
    /// From handing rows over to the answer: a batch to Kafka, its commit included; a call of any other destination.
    Histogram "outbox_delivery_seconds" "seconds" [destination] |m, s| {
        for destination in m.all_destinations() {
            s.distribution(&[&destination.name], &destination.delivery_seconds.read());
        }
    };
    /// From the append of a row (`created_at`, when its transaction began) to its delivery, by the database's clock: of the oldest row of each batch to Kafka, to its mark; of each row to others.
    Histogram "outbox_delay_seconds" "seconds" [destination] |m, s| {
        for destination in m.all_destinations() {
            s.distribution(&[&destination.name], &destination.delay_seconds.read());
        }
    };
    /// What went wrong, by the signal that tells it, each time: `database_outage`, `kafka_outage`, `broker_trouble`, `destination_outage`, `retry`, `unknown`, `fenced`, `set_aside`, `listening_broken`, `prune_failed`, `reading_failed`.
    Counter "outbox_errors_total" "errors" [kind] errors_total;
    /// Turns that this relay has taken.
    Counter "outbox_turns_total" "turns" [] |m, s| s.add(&[], m.counters.turns.read());
    /// Looks for rows that wait.
    Counter "outbox_looks_total" "looks" [] |m, s| s.add(&[], m.counters.looks.read());
    /// Rows that were removed after `retention.sent`.
    Counter "outbox_pruned_rows_total" "rows" [] |m, s| s.add(&[], m.counters.pruned.read());
    /// Looks at the outbox for metrics: each is a statement of some milliseconds, once in 5 s at most.
    Counter "outbox_readings_total" "looks" [result] |m, s| {
        s.add(&["ok"], m.readings.read());
        s.add(&["failed"], m.troubles.errors.reading_failed.read());
    };
    /// How old the last look is; absent, with everything that it told, after one that failed.
    Gauge "outbox_reading_age_seconds" "seconds" [] |m, s| {
        if let Some((at, _)) = &m.live.reading {
            s.seconds(&[], at.elapsed());
        }
    };
    /// When the relay was built, in seconds since 1970.
    Gauge "outbox_start_time_seconds" "seconds" [] |m, s| {
        s.seconds(&[], m.begun.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    };
    /// Always 1; the label is the version of the relay.
    Gauge "outbox_build_info" "" [version] |_, s| s.add(&[env!("CARGO_PKG_VERSION")], 1);
}

/// Every metric of these relays, whose outboxes have different names, in Prometheus' text format.
pub fn prometheus(readings: &[Readings]) -> String {
    let scrapes: Vec<Scrape<'_>> = readings.iter().map(|one| Scrape::of(&one.0)).collect();
    telemetry::prometheus(METRICS, "outbox", &scrapes)
}

impl Readings {
    /// Every metric in Prometheus' text format. For several relays of one process: [`prometheus`].
    pub fn prometheus(&self) -> String {
        prometheus(std::slice::from_ref(self))
    }
}

/// What the last look at the outbox tells, if it knows.
fn of<V: std::fmt::Display>(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&Reading) -> Option<V>,
) {
    samples.known(&[], scrape.reading().and_then(value));
}

fn span(reading: &Reading) -> u64 {
    let (Some(oldest), Some(newest)) = (reading.oldest, reading.newest) else { return 0 };
    newest.saturating_sub(oldest).saturating_add(1).max(0).unsigned_abs()
}

/// Rows that need no manual action.
fn unsent(reading: &Reading) -> u64 {
    let Reading { unsent, retrying, without_topic, without_destination, .. } = reading;
    unsent + retrying + without_topic + without_destination
}

fn oldest_unsent(reading: &Reading) -> Option<f64> {
    if unsent(reading) == 0 { Some(0.0) } else { Some(reading.oldest_waits?.as_secs_f64()) }
}

fn has_turn(live: &Live) -> bool {
    matches!(&live.turn, TurnState::Own(until) if !until.passed())
}

fn errors_total(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let (errors, counters) = (&scrape.troubles.errors, &scrape.counters);
    for (kind, counter) in [
        ("database_outage", &errors.database_outage),
        ("kafka_outage", &errors.kafka_outage),
        ("broker_trouble", &errors.broker_trouble),
        ("destination_outage", &errors.destination_outage),
        ("retry", &counters.retries),
        ("unknown", &counters.unknown),
        ("fenced", &counters.fenced),
        ("set_aside", &counters.failed),
        ("listening_broken", &errors.listening_broken),
        ("prune_failed", &errors.prune_failed),
        ("reading_failed", &errors.reading_failed),
    ] {
        samples.add(&[kind], counter.read());
    }
}

#[cfg(test)]
const HEAD: &str = "
## Metrics

`GET /metrics` of the HTTP port (`http.listen`), in Prometheus' text format; a service that embeds the relay gets the same text from
`Readings::prometheus`. Every metric has the label `outbox` besides those named here: the database's name, and the schema's where
`database.schema` is set; on SQLite the name of the file. No scrape asks the database or Kafka.

What is said to be as of the last look is read by one statement, every 5 s on a connection of its own, by each relay, the one that has the turn and those that
stand by. It ends after 1 s, and after one that took long the next waits for a hundred times as long. After a look that failed these metrics are absent until one
succeeds: an old number would look like a good one. They are of the whole outbox: take the `max` over relays, not the sum. Nothing is read while the port is off and nobody
has asked for `Relay::readings`.

";

#[cfg(test)]
const HEALTH: &str = "
## Health

| path | answers |
|---|---|
| `/health/live` | 200 while the relay's task comes round; 503 when it has been silent for 20 s: starting the process anew is right. A database or a Kafka that is out does not change it |
| `/health/ready` | 200 when the relay ships to all its destinations, or stands by while another has the turn; 503 otherwise |

Both answer with JSON. That of `/health/ready` has `ready`; `turn`: `own`, `others` or `unknown`; `sentence`, the same for people, with who has the turn and what is left
of the lease; and `reasons`: for each what keeps the relay from being ready, `reason` by name and `sentence` for people. The names are `database_outage` and, for the relay that has the turn,
`kafka_outage` and `destination_outage` (down for more than 10 s; a reason for each destination), `outage` (something else has kept it from shipping for as long), `sequence_behind`, `id_shared` and `forbidden` (a person has to act; `forbidden` also for a single topic while others are written to), `lease_over` (another's lease has been over
for more than 10 s, and this relay could not take the turn), `starting` (whose turn it is is not known yet), `stuck` (as `/health/live`), `ending` (shutting down), `ended`. A relay that stands by has no
connection to Kafka and says nothing about it.

The port is read-only and has no authentication, as the consumer's: [metrics.md](metrics.md#health) says what it does about slow clients and about an address that is in use.
";

/// The part of `docs/relay-reference.md` about metrics and health.
#[cfg(test)]
pub(super) fn metrics_reference() -> String {
    [HEAD, &telemetry::Metric::reference(METRICS), HEALTH].concat()
}
