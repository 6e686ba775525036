//! The one table of all metrics. `docs/metrics.md` and what is scraped are made from it, so neither can
//! hold what the other does not.

use std::{
    ops::Deref,
    time::{Instant, SystemTime},
};

use service_kit::{
    metrics,
    telemetry::{self, Samples},
};

use super::{
    meters::{Live, Meters, REASONS},
    partition_reading::PartitionReading,
    readings::{Readings, no_broker},
};

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

    fn consumer(&self) -> &str {
        &self.meters.consumer
    }
}

impl Deref for Scrape<'_> {
    type Target = Meters;

    fn deref(&self) -> &Meters {
        self.meters
    }
}

metrics! { pub METRICS of Scrape<'_>, Scrape::consumer;
    /// Events whose handler ran and committed.
    Counter "inbox_events_applied_total" "events" [] |m, s| s.add(&[], m.counters.applied.read());
    /// Deliveries that were already settled, detected by their inbox row.
    Counter "inbox_events_duplicate_total" "events" [] |m, s| s.add(&[], m.counters.duplicates.read());
    /// Events at or below the last version of their aggregate, on a route with versions: settled without running.
    Counter "inbox_events_stale_total" "events" [] |m, s| s.add(&[], m.counters.stale.read());
    /// Events without a handler that the routes or `events.unknown_type` ignore, and records that `events.undecodable` ignores.
    Counter "inbox_events_ignored_total" "events" [] |m, s| s.add(&[], m.counters.ignored.read());
    /// Events and records of that kind sent to `events.dead_letter_topic` instead.
    Counter "inbox_events_dead_lettered_total" "events" [] |m, s| s.add(&[], m.counters.dead_lettered.read());
    /// Events parked, by reason: by_hand, crashed, exhausted, follower, gap, mismatch, rejected, torn, undecodable, unknown_type.
    Counter "inbox_events_parked_total" "events" [reason] parked_total;
    /// Parked events released with their effect committed.
    Counter "inbox_events_released_total" "events" [] |m, s| s.add(&[], m.counters.released.read());
    /// Parked events discarded by an operator.
    Counter "inbox_events_discarded_total" "events" [] |m, s| s.add(&[], m.counters.discarded.read());
    /// Failed releases of a parked event; it is rescheduled, or needs manual action.
    Counter "inbox_releases_failed_total" "events" [] |m, s| s.add(&[], m.counters.release_failures.read());
    /// Failed attempts of handlers that counted against their events.
    Counter "inbox_attempts_failed_total" "attempts" [] |m, s| s.add(&[], m.counters.failures.read());
    /// Transactions by outcome: committed; failed (a handler); conflict and outage (run again, no attempt counts); resync (fenced, or COMMIT of unknown outcome).
    Counter "inbox_transactions_total" "transactions" [outcome] transactions_total;
    /// Committed transactions, from BEGIN to COMMIT.
    Histogram "inbox_transaction_seconds" "seconds" [] |m, s| s.distribution(&[], &m.transaction_seconds.read());
    /// Events per committed transaction.
    Histogram "inbox_transaction_events" "events" [] |m, s| s.distribution(&[], &m.transaction_events.read());
    /// From the time of the record to its COMMIT, of the oldest event of each committed transaction.
    Histogram "inbox_event_age_seconds" "seconds" [] |m, s| s.distribution(&[], &m.event_age.read());
    /// Runs of a handler: its calls for the events of its type that a transaction has in a row.
    Histogram "inbox_handler_seconds" "seconds" [event_type] |m, s| {
        for route in &m.routes {
            s.distribution(&[&route.event_type], &route.run_seconds.read());
        }
    };
    /// Events handled successfully, including repetitions after a rollback.
    Counter "inbox_handler_events_total" "events" [event_type] |m, s| {
        for route in &m.routes {
            s.add(&[&route.event_type], route.events.read());
        }
    };
    /// Runs of a handler that failed: an error, a panic, its deadline.
    Counter "inbox_handler_failures_total" "runs" [event_type] |m, s| {
        for route in &m.routes {
            s.add(&[&route.event_type], route.failures.read());
        }
    };
    /// Requests of the HTTP intake, by status of the response; absent for those that did not occur.
    Counter "inbox_intake_requests_total" "requests" [status] |m, s| {
        for (status, requests) in m.intake.read() {
            s.add(&[&status.to_string()], requests);
        }
    };
    /// Partitions assigned, revoked or lost.
    Counter "inbox_rebalances_total" "partitions" [change] rebalances_total;
    /// Offset commits that Kafka acknowledged (`ok`) or refused (`failed`). A refused one loses nothing.
    Counter "inbox_kafka_commits_total" "commits" [result] |m, s| {
        s.add(&["ok"], m.counters.commits.read());
        s.add(&["failed"], m.counters.commits_refused.read());
    };
    /// Since Kafka last acknowledged an offset commit; grows while there is nothing to commit.
    Gauge "inbox_kafka_commit_age_seconds" "seconds" [] |m, s| {
        if let Some(at) = m.live.committed_at {
            s.seconds(&[], at.elapsed());
        }
    };
    /// Since the Kafka client was last polled: far below a second, unless its thread hangs.
    Gauge "inbox_kafka_poll_age_seconds" "seconds" [] |m, s| {
        if let Some(at) = m.live.at {
            s.seconds(&[], m.live.silence + at.elapsed());
        }
    };
    /// 1 while the consumer is a member of its group, as far as it knows: 0 before the first assignment, after it was expelled, and while no broker answers.
    Gauge "inbox_group_joined" "boolean" [] |m, s| s.add(&[], u8::from(m.live.joined && !no_broker(&m.live)));
    /// 1 when `/health/ready` answers 200.
    Gauge "inbox_ready" "boolean" [] ready;
    /// 1 for each configured topic that does not exist; absent for the others.
    Gauge "inbox_topic_missing" "boolean" [topic] |m, s| {
        for topic in &*m.live.topics_missing {
            s.add(&[topic], 1);
        }
    };
    /// 1 for each existing configured topic that no member of the group was given (with `consumer.instance_id`).
    Gauge "inbox_topic_unassigned" "boolean" [topic] |m, s| {
        for topic in &*m.live.topics_unassigned {
            s.add(&[topic], 1);
        }
    };
    /// 1 for each topic and group that Kafka does not let the user read: `resource` is `topic` or `group`, `operation` the missing grant.
    Gauge "inbox_forbidden" "boolean" [resource name operation] |m, s| {
        for it in &*m.live.forbidden {
            s.add(&[it.resource, &it.name, it.operation], 1);
        }
    };
    /// Partitions owned by this process.
    Gauge "inbox_partitions" "partitions" [] |m, s| s.add(&[], m.live.partitions.len());
    /// Everything below this offset is settled, as the database holds it.
    Gauge "inbox_watermark_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.watermark);
    /// Since the database last confirmed the watermark: a few seconds, unless the database or the partition is stalled.
    Gauge "inbox_watermark_age_seconds" "seconds" [topic partition] watermark_age;
    /// The offset that Kafka last acknowledged for this process.
    Gauge "inbox_kafka_committed_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.committed);
    /// The next offset expected from Kafka.
    Gauge "inbox_position_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.position);
    /// The end of the log (offset after the last record), as of the client's last fetch or query (every 5 s).
    Gauge "inbox_log_end_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.log_end);
    /// Log end minus watermark. Offsets, not events: compacted logs and transaction markers have gaps.
    Gauge "inbox_lag_offsets" "offsets" [topic partition] |m, s| of(m, s, PartitionReading::lag);
    /// Unsettled events in memory.
    Gauge "inbox_waiting_events" "events" [topic partition] |m, s| of(m, s, |p| Some(p.waiting));
    /// Their size; above `limits.partition_bytes_max` fetching is paused.
    Gauge "inbox_waiting_bytes" "bytes" [topic partition] |m, s| of(m, s, |p| Some(p.bytes));
    /// Open transactions.
    Gauge "inbox_transactions_open" "transactions" [topic partition] |m, s| of(m, s, |p| Some(p.open));
    /// 1 while the partition is paused in Kafka.
    Gauge "inbox_fetching_paused" "boolean" [topic partition] |m, s| of(m, s, |p| Some(u8::from(p.paused)));
    /// How long the slowest running event has been the first of its lane, including attempts and waits between them: events behind it wait.
    Gauge "inbox_oldest_unsettled_seconds" "seconds" [topic partition] |m, s| of(m, s, |p| Some(p.oldest.as_secs_f64()));
    /// Lanes whose first event has been there for more than 5 s; `/health/ready`, `status --lanes` and the log (`lane_held`) name the event.
    Gauge "inbox_lanes_held" "lanes" [topic partition] |m, s| of(m, s, |p| Some(p.held.len()));
    /// 1 while the partition is stalled, with the reason's name; absent otherwise.
    Gauge "inbox_standstill" "boolean" [topic partition reason] standstill;
    /// Events parked in the database, as of the last poll (every 15 s).
    Gauge "inbox_parked_events" "events" [topic partition] |m, s| of(m, s, |p| m.parked_now(&p.place()).map(|parked| parked.events));
    /// Aggregates with parked events, as of the last poll (every 15 s).
    Gauge "inbox_parked_aggregates" "aggregates" [topic partition] |m, s| of(m, s, |p| m.parked_now(&p.place()).map(|parked| parked.aggregates));
    /// Times that an aggregate of the sample (one in 16) was seen on another partition than before: its order is not kept across them.
    Counter "inbox_aggregates_strayed_total" "aggregates" [] |m, s| s.add(&[], m.counters.aggregate_moves.read());
    /// Connections for transactions: busy or idle.
    Gauge "inbox_connections" "connections" [state] |m, s| {
        s.add(&["busy"], m.live.connections_busy);
        s.add(&["idle"], m.live.connections_idle);
    };
    /// Maximum number of connections for transactions: `database.connections`.
    Gauge "inbox_connections_limit" "connections" [] |m, s| s.add(&[], m.connections_max);
    /// Current maximum number of concurrent transactions: `inbox_connections_limit`, or fewer while more would only slow each other down (BEGIN takes long); at least one per partition while there is a backlog, otherwise four, or the number of partitions.
    Gauge "inbox_transactions_limit" "transactions" [] |m, s| s.add(&[], m.live.transactions_limit);
    /// Connections opened for transactions; steady growth means that the database breaks them.
    Counter "inbox_connections_opened_total" "connections" [] |m, s| s.add(&[], m.connections_opened.read());
    /// Sweeps of the inbox by retention.
    Counter "inbox_prunes_total" "sweeps" [result] |m, s| {
        s.add(&["ok"], m.counters.sweeps.read());
        s.add(&["failed"], m.counters.sweeps_failed.read());
    };
    /// Inbox rows deleted by retention.
    Counter "inbox_pruned_rows_total" "rows" [] |m, s| s.add(&[], m.counters.pruned.read());
    /// Age of the oldest open snapshot of PostgreSQL, as of the last poll (every 15 s): a dump, a report, an idle transaction. Meanwhile dead rows cannot be removed. 0: none; absent if the role may not see it.
    Gauge "inbox_oldest_snapshot_seconds" "seconds" [] |m, s| {
        if let Some(open) = m.oldest_snapshot() {
            s.seconds(&[], open);
        }
    };
    /// When the consumer was built, in seconds since 1970.
    Gauge "inbox_start_time_seconds" "seconds" [] |m, s| {
        s.seconds(&[], m.begun.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    };
    /// Always 1; the label is the version of the library.
    Gauge "inbox_build_info" "" [version] |_, s| s.add(&[env!("CARGO_PKG_VERSION")], 1);
}

/// Every metric of these consumers, which have different names, in Prometheus' text format.
pub fn prometheus(readings: &[Readings]) -> String {
    let scrapes: Vec<Scrape<'_>> = readings.iter().map(|one| Scrape::of(&one.0)).collect();
    telemetry::prometheus(METRICS, "consumer", &scrapes)
}

impl Readings {
    /// Every metric in Prometheus' text format. For several consumers of one process:
    /// [`prometheus`].
    pub fn prometheus(&self) -> String {
        prometheus(std::slice::from_ref(self))
    }
}

fn parked_total(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    for (reason, counter) in REASONS.iter().zip(&scrape.parked) {
        samples.add(&[reason.as_str()], counter.read());
    }
}

fn transactions_total(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let counters = &scrape.counters;
    samples.add(&["committed"], counters.batches.read());
    samples.add(&["failed"], counters.rollbacks.read());
    samples.add(&["conflict"], counters.conflicts.read());
    samples.add(&["outage"], counters.outages.read());
    samples.add(&["resync"], counters.resyncs.read());
}

fn rebalances_total(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let counters = &scrape.counters;
    samples.add(&["assigned"], counters.assigned.read());
    samples.add(&["revoked"], counters.revoked.read());
    samples.add(&["lost"], counters.lost.read());
}

fn ready(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    samples.add(&[], u8::from(Readings::readiness_of(scrape.meters, &scrape.live).ready));
}

fn watermark_age(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let now = Instant::now();
    for partition in &*scrape.live.partitions {
        if let Some(at) = partition.confirmed_at {
            let number = partition.partition.to_string();
            samples.seconds(&[&partition.topic, &number], now.duration_since(at));
        }
    }
}

fn standstill(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    for partition in &*scrape.live.partitions {
        if let Some(reason) = &partition.standstill {
            samples.add(&[&partition.topic, &partition.partition.to_string(), reason.name], 1);
        }
    }
}

/// One sample for each partition for which `value` knows one.
fn of<V: std::fmt::Display>(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&PartitionReading) -> Option<V>,
) {
    for partition in &*scrape.live.partitions {
        let number = partition.partition.to_string();
        samples.known(&[&partition.topic, &number], value(partition));
    }
}

#[cfg(test)]
const HEAD: &str = "\
# Metrics

<!-- Made from the table `METRICS` in inbox-runtime/src/telemetry/metrics.rs; a test compares them. -->

`GET /metrics` of the HTTP port (`http.listen`), in Prometheus' text format; a service that embeds the consumer gets the same text from
`Readings::prometheus`. Every metric has the label `consumer` in addition to those named here. Labels are bounded: topics and partitions
of this process, event types with a handler, reasons and outcomes by name. A metric of a partition is reported by its
owner, so sums over processes count nothing twice. Scrapes query neither the database nor Kafka. The relay's metrics: [relay.md](relay.md#metrics).

";

/// `docs/metrics.md`, from the table.
#[cfg(test)]
pub(super) fn metrics_reference() -> String {
    let mut page = String::from(HEAD);
    page.push_str(&telemetry::Metric::reference(METRICS));
    page.push_str(HEALTH);
    page
}

#[cfg(test)]
const HEALTH: &str = "
## Health

| path | answers |
|---|---|
| `/health/live` | 200 while the consumer's loop makes progress and its Kafka client is polled; 503 when one of them has been blocked for 20 s: restart the process. An outage of the database or Kafka does not change it |
| `/health/ready` | 200 when the consumer has joined its group and none of its partitions is stalled; 503 otherwise. A member without partitions, because there are more members than partitions, is ready |

Both answer with JSON. `/health/ready` has `ready`, the number of `partitions`, and `reasons`, why the
consumer is not ready: `reason` by name, `sentence` as text, and topic and partition where they apply. `held` lists
the lanes whose first event has been there for more than 5 s, with its type, id, aggregate, offset, attempt and last error: later events of the lane wait, the other lanes continue, and the consumer is ready. The names of reasons are
those of `inbox_standstill` (the operations page has a section for each), and `starting` (not started), `joining` (no assignment from the
group yet, or expelled from it), `no_broker` (no broker has answered for 10 s), `stuck` (as `/health/live`), `ending` (shutting down), `ended`. A partition is not ready while it is being acquired (`taking_over`)
or its database is down (`outage`).

The port is read-only and has no authentication. It listens on this machine only, and in a container on all interfaces, unless `http.listen` overrides it. An address
in use does not end the consumer: it reports the signal `http_failed` and retries every 5 s.

A connection serves one request. A client has 10 s to send it and 10 s to read the response, then the connection is reset. There are
32 slots, 24 of them for responses in progress, and no queue: when all are in use, the oldest connection is dropped, starting with those
that have sent no request. A client that never reads therefore blocks neither probes nor scrapers.
";
