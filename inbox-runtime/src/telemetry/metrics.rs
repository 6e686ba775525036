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
    /// Deliveries that were settled already, recognised by their inbox row.
    Counter "inbox_events_duplicate_total" "events" [] |m, s| s.add(&[], m.counters.duplicates.read());
    /// Events at or below the last version of their aggregate, by a route that looks at versions: settled, and not run.
    Counter "inbox_events_stale_total" "events" [] |m, s| s.add(&[], m.counters.stale.read());
    /// Events that nobody handles and the routes or `events.unknown_type` ignore, and records that `events.undecodable` ignores.
    Counter "inbox_events_ignored_total" "events" [] |m, s| s.add(&[], m.counters.ignored.read());
    /// Such events and records that were sent to `events.dead_letter_topic` instead.
    Counter "inbox_events_dead_lettered_total" "events" [] |m, s| s.add(&[], m.counters.dead_lettered.read());
    /// Events set aside, by why: by_hand, crashed, exhausted, follower, gap, mismatch, rejected, torn, undecodable, unknown_type.
    Counter "inbox_events_parked_total" "events" [reason] parked_total;
    /// Parked events that left their queue with their effect.
    Counter "inbox_events_released_total" "events" [] |m, s| s.add(&[], m.counters.released.read());
    /// Parked events that a person gave up.
    Counter "inbox_events_discarded_total" "events" [] |m, s| s.add(&[], m.counters.discarded.read());
    /// Releases of a parked event that failed; it has a new time, or waits for a person.
    Counter "inbox_releases_failed_total" "events" [] |m, s| s.add(&[], m.counters.release_failures.read());
    /// Attempts of handlers that failed and were counted against their events.
    Counter "inbox_attempts_failed_total" "attempts" [] |m, s| s.add(&[], m.counters.failures.read());
    /// Transactions by how they ended: committed; failed (a handler); conflict and outage (run again, no attempt counts); resync (fenced, or COMMIT of unknown outcome).
    Counter "inbox_transactions_total" "transactions" [outcome] transactions_total;
    /// Committed transactions, from BEGIN to COMMIT.
    Histogram "inbox_transaction_seconds" "seconds" [] |m, s| s.distribution(&[], &m.transaction_seconds.read());
    /// Events of a committed transaction.
    Histogram "inbox_transaction_events" "events" [] |m, s| s.distribution(&[], &m.transaction_events.read());
    /// From the time of the record to its COMMIT, of the oldest event of each committed transaction.
    Histogram "inbox_event_age_seconds" "seconds" [] |m, s| s.distribution(&[], &m.event_age.read());
    /// Runs of a handler: its calls for the events of its type that a transaction has in a row.
    Histogram "inbox_handler_seconds" "seconds" [event_type] |m, s| {
        for route in &m.routes {
            s.distribution(&[&route.event_type], &route.run_seconds.read());
        }
    };
    /// Events that a handler was given and answered well, repetitions after a rollback included.
    Counter "inbox_handler_events_total" "events" [event_type] |m, s| {
        for route in &m.routes {
            s.add(&[&route.event_type], route.events.read());
        }
    };
    /// Runs of a handler that ended in a failure of its own: an error, a panic, its deadline.
    Counter "inbox_handler_failures_total" "runs" [event_type] |m, s| {
        for route in &m.routes {
            s.add(&[&route.event_type], route.failures.read());
        }
    };
    /// Requests of the HTTP intake, by the status of their answers; absent for those that did not occur.
    Counter "inbox_intake_requests_total" "requests" [status] |m, s| {
        for (status, requests) in m.intake.read() {
            s.add(&[&status.to_string()], requests);
        }
    };
    /// Partitions that were assigned, revoked or lost.
    Counter "inbox_rebalances_total" "partitions" [change] rebalances_total;
    /// Offset commits that Kafka acknowledged (`ok`) or refused (`failed`). Nothing is lost by a failed one.
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
    /// Since the Kafka client was last polled: far below a second, or its thread hangs.
    Gauge "inbox_kafka_poll_age_seconds" "seconds" [] |m, s| {
        if let Some(at) = m.live.at {
            s.seconds(&[], m.live.silence + at.elapsed());
        }
    };
    /// 1 when the consumer is a member of its group, as far as it knows: 0 before the first assignment, after it was expelled, and while no broker answers.
    Gauge "inbox_group_joined" "boolean" [] |m, s| s.add(&[], u8::from(m.live.joined && !no_broker(&m.live)));
    /// 1 when `/health/ready` answers 200.
    Gauge "inbox_ready" "boolean" [] ready;
    /// 1 for each configured topic that is not there; absent for those that are.
    Gauge "inbox_topic_missing" "boolean" [topic] |m, s| {
        for topic in &*m.live.topics_missing {
            s.add(&[topic], 1);
        }
    };
    /// 1 for each topic that is there, is configured, and that no member of the group was given (with `consumer.instance_id`).
    Gauge "inbox_topic_unassigned" "boolean" [topic] |m, s| {
        for topic in &*m.live.topics_unassigned {
            s.add(&[topic], 1);
        }
    };
    /// 1 for each topic and group that Kafka does not let the user read: `resource` is `topic` or `group`, `operation` what to grant.
    Gauge "inbox_forbidden" "boolean" [resource name operation] |m, s| {
        for it in &*m.live.forbidden {
            s.add(&[it.resource, &it.name, it.operation], 1);
        }
    };
    /// Partitions that this process has.
    Gauge "inbox_partitions" "partitions" [] |m, s| s.add(&[], m.live.partitions.len());
    /// Everything below this offset is settled, as the database holds it.
    Gauge "inbox_watermark_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.watermark);
    /// Since the database last confirmed the watermark: a few seconds, or the database or the partition stands still.
    Gauge "inbox_watermark_age_seconds" "seconds" [topic partition] watermark_age;
    /// What Kafka acknowledged of this process's offset commits.
    Gauge "inbox_kafka_committed_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.committed);
    /// The next offset to arrive from Kafka.
    Gauge "inbox_position_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.position);
    /// The offset behind the last record, as of the client's last fetch, or as brokers last answered (every 5 s).
    Gauge "inbox_log_end_offset" "offset" [topic partition] |m, s| of(m, s, |p| p.log_end);
    /// Log end less watermark. Offsets, not events: compacted logs and transaction markers have gaps.
    Gauge "inbox_lag_offsets" "offsets" [topic partition] |m, s| of(m, s, PartitionReading::lag);
    /// Events in memory that are not settled.
    Gauge "inbox_waiting_events" "events" [topic partition] |m, s| of(m, s, |p| Some(p.waiting));
    /// Their bytes; above `limits.partition_bytes_max` fetching is paused.
    Gauge "inbox_waiting_bytes" "bytes" [topic partition] |m, s| of(m, s, |p| Some(p.bytes));
    /// Transactions open now.
    Gauge "inbox_transactions_open" "transactions" [topic partition] |m, s| of(m, s, |p| Some(p.open));
    /// 1 while the partition is paused in Kafka.
    Gauge "inbox_fetching_paused" "boolean" [topic partition] |m, s| of(m, s, |p| Some(u8::from(p.paused)));
    /// For how long the event that is at work longest has been the first of its lane, its attempts and the waits between them included: some seconds, or what comes behind it waits.
    Gauge "inbox_oldest_unsettled_seconds" "seconds" [topic partition] |m, s| of(m, s, |p| Some(p.oldest.as_secs_f64()));
    /// Lanes whose first event has been that for more than 5 s; `/health/ready`, `status --lanes` and the log (`lane_held`) name it.
    Gauge "inbox_lanes_held" "lanes" [topic partition] |m, s| of(m, s, |p| Some(p.held.len()));
    /// 1 while the partition does not move, with the reason's name; absent while it moves.
    Gauge "inbox_standstill" "boolean" [topic partition reason] standstill;
    /// Events parked in the database, as of the last look (every 15 s).
    Gauge "inbox_parked_events" "events" [topic partition] |m, s| of(m, s, |p| m.parked_now(&p.place()).map(|parked| parked.events));
    /// Aggregates with parked events, as of the last look (every 15 s).
    Gauge "inbox_parked_aggregates" "aggregates" [topic partition] |m, s| of(m, s, |p| m.parked_now(&p.place()).map(|parked| parked.aggregates));
    /// Times that an aggregate of the sample (one in 16) was seen on another partition than before: its order is not kept across them.
    Counter "inbox_aggregates_strayed_total" "aggregates" [] |m, s| s.add(&[], m.counters.aggregate_moves.read());
    /// Connections for transactions: busy or idle.
    Gauge "inbox_connections" "connections" [state] |m, s| {
        s.add(&["busy"], m.live.connections_busy);
        s.add(&["idle"], m.live.connections_idle);
    };
    /// The most connections for transactions: `database.connections`.
    Gauge "inbox_connections_limit" "connections" [] |m, s| s.add(&[], m.connections_max);
    /// The most transactions side by side at present: `inbox_connections_limit`, or fewer while more would only make each other slower (BEGIN takes long); one per partition at least while there is a backlog, and else four, or as many as there are partitions.
    Gauge "inbox_transactions_limit" "transactions" [] |m, s| s.add(&[], m.live.transactions_limit);
    /// Connections for transactions that were opened; one that grows all the time is a database that breaks them.
    Counter "inbox_connections_opened_total" "connections" [] |m, s| s.add(&[], m.connections_opened.read());
    /// Sweeps of the inbox by retention.
    Counter "inbox_prunes_total" "sweeps" [result] |m, s| {
        s.add(&["ok"], m.counters.sweeps.read());
        s.add(&["failed"], m.counters.sweeps_failed.read());
    };
    /// Inbox rows that retention removed.
    Counter "inbox_pruned_rows_total" "rows" [] |m, s| s.add(&[], m.counters.pruned.read());
    /// For how long the oldest snapshot of PostgreSQL is open, as of the last look (every 15 s): a dump, a report, an idle transaction. Meanwhile dead rows cannot be removed. 0: none is open; absent where the role may not see since when one is.
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
`Readings::prometheus`. Every metric has the label `consumer` besides those named here. Labels are bounded: topics and partitions
that this process has, event types that have a handler, reasons and outcomes by name. A metric of a partition is told by the
process that has the partition, so sums over processes count nothing twice. No scrape asks the database or Kafka. The relay's metrics: [relay.md](relay.md#metrics).

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
| `/health/live` | 200 while the consumer's loop does its rounds and its Kafka client is polled; 503 when one of them has been silent for 20 s: starting the process anew is right. A database or a Kafka that is out does not change it |
| `/health/ready` | 200 when the consumer has joined its group and every partition that it was given moves; 503 otherwise. A member that has no partition, because there are more members than partitions, is ready |

Both answer with JSON. That of `/health/ready` has `ready`, the number of `partitions`, and `reasons`: for each what keeps the
consumer from being ready, `reason` by name, `sentence` for people, and topic and partition when it is about one. `held` names
the lanes whose first event has been that for more than 5 s, with its type, id, aggregate, offset, attempt and last error: what comes behind it waits, the other lanes go on, and the consumer is ready. The names of reasons are
those of `inbox_standstill` (the operations page has a section for each), and `starting` (not begun), `joining` (no assignment from the
group yet, or expelled from it), `no_broker` (no broker has answered for 10 s), `stuck` (as `/health/live`), `ending` (shutting down), `ended`. A partition that is being taken over (`taking_over`) is not ready for that moment, and
nor is one whose database is out (`outage`).

The port is read-only and has no authentication. It listens on this machine only, and in a container on all interfaces, unless `http.listen` says otherwise. An address
that is in use does not end the consumer: it says so (signal `http_failed`) and tries again every 5 s.

A connection is for one request. A client has 10 s to send it and 10 s to read the answer, then the connection is reset. There are
32 places, 24 of them for answers under way; nobody waits for one: when all are taken the oldest connection is dropped, of those
that have sent no request first. So who never reads keeps neither a probe nor a scraper from an answer.
";
