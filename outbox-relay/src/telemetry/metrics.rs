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
    /// Unsent rows that need no manual action, as of the last poll: before their first attempt (at most 20,000 are counted; `outbox_unsent_span_rows` is the upper bound), in retry, overdue after `deliver_after`, or waiting for a topic or a destination. Rows that are parked, delayed or blocked behind others have metrics of their own.
    Gauge "outbox_unsent_rows" "rows" [] |m, s| of(m, s, |it| Some(unsent(it)));
    /// Distance from the oldest row before its first attempt to the newest row, by their numbers, as of the last poll: an upper bound of the waiting rows. Sent rows and numbers that were never committed count, too.
    Gauge "outbox_unsent_span_rows" "rows" [] |m, s| of(m, s, |it| Some(span(it)));
    /// Age of the oldest of these rows at the last poll, from its append or its `deliver_after`; 0 without any.
    Gauge "outbox_oldest_unsent_seconds" "seconds" [] |m, s| of(m, s, oldest_unsent);
    /// Parked rows, which need manual action, as of the last poll; at most 1,000 are counted.
    Gauge "outbox_set_aside_rows" "rows" [] |m, s| of(m, s, |it| Some(it.set_aside));
    /// Rows in retry, as of the last poll; among the first 1,000 rows that are in retry or delayed.
    Gauge "outbox_retrying_rows" "rows" [] |m, s| of(m, s, |it| Some(it.retrying));
    /// Age of the oldest row that has failed and is retried, counted like `outbox_oldest_unsent_seconds`; 0 without any.
    Gauge "outbox_oldest_retry_seconds" "seconds" [] |m, s| of(m, s, |it| Some(it.oldest_retry.unwrap_or_default().as_secs_f64()));
    /// Rows scheduled for later (`deliver_after`), as far as the relay has read them, counted like these.
    Gauge "outbox_delayed_rows" "rows" [] |m, s| of(m, s, |it| Some(it.delayed));
    /// Rows that wait for a topic that is missing or forbidden, as of the last poll; among the first 1,000 rows that wait for a topic or a destination.
    Gauge "outbox_without_topic_rows" "rows" [] |m, s| of(m, s, |it| Some(it.without_topic));
    /// Rows that wait for a destination that is down, counted like these; rows in the relay's memory count as unsent.
    Gauge "outbox_without_destination_rows" "rows" [] |m, s| of(m, s, |it| Some(it.without_destination));
    /// Rows blocked behind one of these five kinds, as of the last poll; at most 2,000 are counted in total.
    Gauge "outbox_held_rows" "rows" [] |m, s| of(m, s, |it| Some(it.held));
    /// Size of `outbox_events` without its indexes, as of the last poll. Not available on SQLite.
    Gauge "outbox_table_bytes" "bytes" [] |m, s| of(m, s, |it| it.table_bytes);
    /// Size of its indexes. Not available on SQLite.
    Gauge "outbox_index_bytes" "bytes" [] |m, s| of(m, s, |it| it.index_bytes);
    /// 1 while this relay is active: it holds the lease.
    Gauge "outbox_turn_held" "boolean" [] |m, s| s.add(&[], u8::from(has_turn(&m.live)));
    /// Time left of the active relay's lease, as of the last poll; 0 without one.
    Gauge "outbox_lease_left_seconds" "seconds" [] |m, s| of(m, s, |it| Some(it.lease_left.as_secs_f64()));
    /// 1 while this relay is active but stalled, with the reason's name: `outage`, `sequence_behind`, `id_shared`, `forbidden`; absent while it ships.
    Gauge "outbox_standstill" "boolean" [reason] |m, s| {
        if let Some(standstill) = &m.live.standstill {
            s.add(&[standstill_name(standstill)], 1);
        }
    };
    /// 1 for each topic and transactional id that Kafka does not let the user write to: `resource` is `topic`, `transactional_id` or `cluster`, `operation` the missing grant.
    Gauge "outbox_forbidden" "boolean" [resource name operation] |m, s| {
        for it in m.live.forbidden() {
            s.add(&[it.resource, &it.name, it.operation], 1);
        }
    };
    /// Duration of the current outage of the database or Kafka, as seen by this relay; 0 without one. Kafka's is reported by the active relay.
    Gauge "outbox_outage_seconds" "seconds" [of] |m, s| {
        let lasts = |outage: Option<Outage>| outage.map_or(Duration::ZERO, |outage| outage.lasts());
        s.seconds(&["database"], lasts(m.troubles.database_outage()));
        s.seconds(&["kafka"], lasts(m.troubles.kafka_outage()));
    };
    /// Duration of the current outage of a destination other than Kafka, as seen by this relay while it is active; 0 without one. If its address is a template, of any of its addresses.
    Gauge "outbox_destination_outage_seconds" "seconds" [destination] |m, s| {
        for destination in &m.destinations {
            s.seconds(&[&destination.name], destination.out_for());
        }
    };
    /// 1 when `/health/ready` answers 200.
    Gauge "outbox_ready" "boolean" [] |m, s| {
        s.add(&[], u8::from(Readings::readiness_of(m.meters, &m.live).ready));
    };
    /// Rows appended while this relay runs, measured by the largest number since the first poll that found a row: numbers that were never committed count, too.
    Counter "outbox_appended_rows_total" "rows" [] |m, s| s.add(&[], m.appended.read());
    /// Rows delivered by this relay: to Kafka once they are marked, to others once the destination accepted them.
    Counter "outbox_delivered_rows_total" "rows" [destination] |m, s| {
        for destination in m.all_destinations() {
            s.add(&[&destination.name], destination.rows.read());
        }
    };
    /// Batches delivered to Kafka and marked.
    Counter "outbox_batches_total" "batches" [] |m, s| s.add(&[], m.counters.batches.read());
    /// Rows per batch.
    Histogram "outbox_batch_rows" "rows" [] |m, s| s.distribution(&[], &m.batch_rows.read());
    /// Time from handing rows over to the answer: of a batch to Kafka, its commit included; of a call to any other destination.
    Histogram "outbox_delivery_seconds" "seconds" [destination] |m, s| {
        for destination in m.all_destinations() {
            s.distribution(&[&destination.name], &destination.delivery_seconds.read());
        }
    };
    /// Time from the append of a row (`created_at`, when its transaction started) to its delivery, by the database's clock: of the oldest row of each batch to Kafka, until its mark; of each row to others.
    Histogram "outbox_delay_seconds" "seconds" [destination] |m, s| {
        for destination in m.all_destinations() {
            s.distribution(&[&destination.name], &destination.delay_seconds.read());
        }
    };
    /// Failures by the signal that reports them: `database_outage`, `kafka_outage`, `broker_trouble`, `destination_outage`, `retry`, `unknown`, `fenced`, `set_aside`, `listening_broken`, `prune_failed`, `reading_failed`.
    Counter "outbox_errors_total" "errors" [kind] errors_total;
    /// Leases acquired by this relay.
    Counter "outbox_turns_total" "turns" [] |m, s| s.add(&[], m.counters.turns.read());
    /// Polls for waiting rows.
    Counter "outbox_looks_total" "looks" [] |m, s| s.add(&[], m.counters.looks.read());
    /// Rows deleted after `retention.sent`.
    Counter "outbox_pruned_rows_total" "rows" [] |m, s| s.add(&[], m.counters.pruned.read());
    /// Polls of the outbox for metrics: each is a statement of some milliseconds, at most once in 5 s.
    Counter "outbox_readings_total" "looks" [result] |m, s| {
        s.add(&["ok"], m.readings.read());
        s.add(&["failed"], m.troubles.errors.reading_failed.read());
    };
    /// Age of the last poll; absent after a failed one, as are all metrics of that poll.
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

Metrics described as of the last poll are read by one statement, every 5 s on a separate connection, by each relay, active or on standby. Its timeout is 1 s, and after a
slow one the next waits for a hundred times as long. After a failed poll these metrics are absent until one
succeeds, since an old number would look like a current one. They describe the whole outbox: take the `max` over relays, not the sum. Nothing is read while the port is off and
`Relay::readings` is not used.

";

#[cfg(test)]
const HEALTH: &str = "
## Health

| path | answers |
|---|---|
| `/health/live` | 200 while the relay's task makes progress; 503 when it has been blocked for 20 s: restart the process. An outage of the database or Kafka does not change it |
| `/health/ready` | 200 when the relay ships to all its destinations, or is on standby while another is active; 503 otherwise |

Both answer with JSON. `/health/ready` has `ready`; `turn`: whether the lease is this relay's (`own`), another's (`others`) or `unknown`; `sentence`, the same as text, with the holder and the time left
of the lease; and `reasons`, why the relay is not ready: `reason` by name and `sentence` as text. The names are `database_outage` and, for the active relay,
`kafka_outage` and `destination_outage` (down for more than 10 s; a reason for each destination), `outage` (something else has kept it from shipping for as long), `sequence_behind`, `id_shared` and `forbidden` (manual action required; `forbidden` also for a single topic while others are written to), `lease_over` (another's lease expired
more than 10 s ago, and this relay could not acquire it), `starting` (the holder of the lease is not known yet), `stuck` (as `/health/live`), `ending` (shutting down), `ended`. A relay on standby has no
connection to Kafka and reports nothing about it.

Like the consumer's, the port is read-only and has no authentication: [metrics.md](metrics.md#health) describes slow clients and an address in use.
";

/// The part of `docs/relay-reference.md` about metrics and health.
#[cfg(test)]
pub(super) fn metrics_reference() -> String {
    [HEAD, &telemetry::Metric::reference(METRICS), HEALTH].concat()
}
