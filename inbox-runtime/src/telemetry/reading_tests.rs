//! What is read off a consumer: every metric of the table and no other, and readiness with its reasons.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use inbox_engine::internal::{BatchOutcome, Failure, HandlerFault, ParkReason, Tally};
use kafka_kit::internal::Forbidden;
use outbox_core::TopicPartition;

use super::{
    meters::{Live, Meters, Parked},
    *,
};

fn partition(number: i32, standstill: Option<(&'static str, &str)>) -> PartitionReading {
    PartitionReading {
        topic: "orders".into(),
        partition: number,
        watermark: Some(90),
        committed: Some(80),
        position: Some(95),
        log_end: Some(100),
        waiting: 5,
        bytes: 5_000,
        open: 1,
        paused: false,
        confirmed_at: Some(Instant::now()),
        standstill: standstill
            .map(|(name, sentence)| Reason { name, sentence: sentence.to_owned() }),
        oldest: Duration::from_secs(1),
        held: Vec::new(),
    }
}

fn live(partitions: Vec<PartitionReading>) -> Live {
    Live {
        at: Some(Instant::now()),
        joined: true,
        committed_at: Some(Instant::now()),
        connections_busy: 1,
        connections_idle: 2,
        transactions_limit: 7,
        partitions: partitions.into(),
        ..Live::default()
    }
}

/// A consumer about which everything is known.
fn measured(consumer: &str) -> Readings {
    let meters = Meters::new(consumer, ["Order\"Paid\\", "OrderSent"], 8);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let ago = i64::try_from(now.as_millis()).unwrap() - 2_000;
    let tally = Tally { applied: 3, duplicates: 1, ..Tally::default() };
    let took = Duration::from_millis(7);
    meters.transaction(&BatchOutcome::Committed(tally), 4, Some(ago), took);
    meters.transaction(&BatchOutcome::Failed(vec![Failure::retry(0, "x".into())]), 4, None, took);
    meters.transaction(&BatchOutcome::Committed(Tally::default()), 1, None, took);
    meters.run(0, Duration::from_millis(3), 3, false);
    meters.intake.count(200);
    meters.run(1, Duration::from_millis(3), 0, true);
    meters.run(9, Duration::from_millis(3), 0, true);
    meters.parked(ParkReason::Torn);
    let stands = Some(("outage", "the database is out"));
    let gone = Arc::from(["bills".into()]);
    let partitions = vec![partition(0, None), partition(1, stands)];
    let forbidden = Forbidden { resource: "group", name: "billing".into(), operation: "READ" };
    meters.publish(Live {
        topics_missing: gone,
        topics_unassigned: Arc::from(["refunds".into()]),
        forbidden: Arc::from([forbidden]),
        ..live(partitions)
    });
    let place = TopicPartition { topic: "orders".into(), partition: 0 };
    meters.publish_parked(HashMap::from([(place, Parked { events: 12, aggregates: 3 })]));
    meters.publish_snapshot(Some(Duration::from_mins(10)));
    Readings(meters)
}

/// The samples by their name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name, value.parse().unwrap())
        })
        .collect()
}

#[test]
fn everything_that_is_measured_is_shown_with_its_labels() {
    let text = measured("billing").prometheus();
    let all = samples(&text);
    let shows = |name: &str, value: f64| assert_eq!(all.get(name), Some(&value), "{name}\n{text}");
    shows(r#"inbox_events_applied_total{consumer="billing"}"#, 3.0);
    shows(r#"inbox_events_duplicate_total{consumer="billing"}"#, 1.0);
    shows(r#"inbox_events_parked_total{consumer="billing",reason="torn"}"#, 1.0);
    shows(r#"inbox_transactions_total{consumer="billing",outcome="committed"}"#, 2.0);
    shows(r#"inbox_transactions_total{consumer="billing",outcome="failed"}"#, 1.0);
    shows(r#"inbox_transaction_seconds_bucket{consumer="billing",le="0.005"}"#, 0.0);
    shows(r#"inbox_transaction_seconds_bucket{consumer="billing",le="0.01"}"#, 2.0);
    shows(r#"inbox_transaction_seconds_sum{consumer="billing"}"#, 0.014);
    shows(r#"inbox_transaction_seconds_count{consumer="billing"}"#, 2.0);
    shows(r#"inbox_event_age_seconds_bucket{consumer="billing",le="5"}"#, 1.0);
    shows(r#"inbox_event_age_seconds_count{consumer="billing"}"#, 1.0);
    shows(r#"inbox_handler_events_total{consumer="billing",event_type="Order\"Paid\\"}"#, 3.0);
    shows(r#"inbox_handler_failures_total{consumer="billing",event_type="OrderSent"}"#, 1.0);
    shows(r#"inbox_lag_offsets{consumer="billing",topic="orders",partition="0"}"#, 10.0);
    shows(r#"inbox_parked_events{consumer="billing",topic="orders",partition="0"}"#, 12.0);
    shows(
        r#"inbox_standstill{consumer="billing",topic="orders",partition="1",reason="outage"}"#,
        1.0,
    );
    shows(r#"inbox_topic_missing{consumer="billing",topic="bills"}"#, 1.0);
    shows(r#"inbox_topic_unassigned{consumer="billing",topic="refunds"}"#, 1.0);
    let forbidden = r#"resource="group",name="billing",operation="READ""#;
    shows(&format!("inbox_forbidden{{consumer=\"billing\",{forbidden}}}"), 1.0);
    shows(r#"inbox_connections{consumer="billing",state="idle"}"#, 2.0);
    shows(r#"inbox_transactions_limit{consumer="billing"}"#, 7.0);
    shows(r#"inbox_ready{consumer="billing"}"#, 0.0);
    let still = all.keys().filter(|name| name.starts_with("inbox_standstill"));
    assert_eq!(still.count(), 1, "a partition that moves has no reason: {text}");
}

#[test]
fn a_scrape_has_every_metric_of_the_table_and_no_other() {
    let text = measured("billing").prometheus();
    let of = |mark: &str| -> Vec<&str> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
        lines.map(|line| line.split(' ').next().unwrap()).collect()
    };
    let table: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(of("# HELP "), table);
    assert_eq!(of("# TYPE "), table);
    let base = |sample: &str| -> String {
        let name = sample.split('{').next().unwrap();
        let suffix = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        suffix.unwrap_or(name).to_owned()
    };
    let sampled: BTreeSet<String> = samples(&text).keys().map(|sample| base(sample)).collect();
    assert_eq!(sampled, table.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
    let unique: BTreeSet<&str> = table.iter().copied().collect();
    assert_eq!(unique.len(), table.len(), "each metric is in the table once");
}

#[test]
fn names_say_what_prometheus_wants_them_to_say() {
    for Metric { name, kind, unit, doc, .. } in METRICS {
        assert!(name.starts_with("inbox_") && !doc.is_empty(), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
        if *unit == "seconds" {
            assert!(name.ends_with("_seconds"), "{name}");
        }
    }
}

#[test]
fn two_consumers_of_one_process_share_one_text() {
    let text = prometheus(&[measured("billing"), measured("mail")]);
    let help = text.matches("# HELP inbox_ready ").count();
    let all = samples(&text);
    assert_eq!(help, 1);
    assert!(all.contains_key(r#"inbox_ready{consumer="billing"}"#), "{text}");
    assert!(all.contains_key(r#"inbox_ready{consumer="mail"}"#), "{text}");
}

#[test]
fn a_consumer_is_ready_when_everything_that_it_was_given_moves() {
    let meters = Meters::new("billing", ["OrderPaid"], 8);
    let readings = Readings(Arc::clone(&meters));
    let reasons = || -> Vec<&str> {
        let readiness = readings.readiness();
        assert_eq!(readiness.ready, readiness.reasons.is_empty());
        readiness.reasons.iter().map(|unready| unready.reason).collect()
    };
    assert_eq!(reasons(), ["starting"]);
    assert!(readings.live(), "what has not begun is not to be started anew");
    meters.publish(Live { joined: false, ..live(vec![]) });
    assert_eq!(reasons(), ["joining"]);
    meters.publish(live(vec![]));
    assert_eq!(reasons(), [""; 0], "a member without partitions has nothing to do, and does it");
    meters.publish(live(vec![partition(0, None), partition(1, None)]));
    assert_eq!(reasons(), [""; 0]);
    let reused = Some(("reused", "offset 7"));
    meters.publish(live(vec![
        partition(0, reused),
        partition(1, None),
        partition(2, Some(("outage", "x"))),
    ]));
    assert_eq!(reasons(), ["reused", "outage"]);
    assert!(readings.live(), "a standstill is no reason to start anew");
    meters.publish(Live { ending: true, ..live(vec![]) });
    assert_eq!(reasons(), ["ending"], "what is letting go takes no more work");
    meters.end();
    assert_eq!(reasons(), ["ended"]);
}

#[test]
fn a_loop_or_a_client_that_is_silent_is_dead() {
    let meters = Meters::new("billing", ["OrderPaid"], 8);
    let readings = Readings(Arc::clone(&meters));
    let minute = Duration::from_mins(1);
    meters.publish(Live { at: Instant::now().checked_sub(minute), ..live(vec![]) });
    assert!(!readings.live());
    let said = &readings.readiness().reasons[0];
    assert_eq!(said.reason, "stuck");
    assert!(said.sentence.contains("loop has been blocked for 60s"), "{}", said.sentence);
    meters.publish(Live { silence: minute, ..live(vec![]) });
    assert!(!readings.live());
    meters.publish(live(vec![]));
    assert!(readings.live());
}

#[test]
fn a_rejected_failure_is_counted_once() {
    let meters = Meters::new("billing", ["OrderPaid"], 8);
    let failure = Failure { index: Some(0), fault: HandlerFault::Reject, error: "no".into() };
    meters.transaction(&BatchOutcome::Failed(vec![failure]), 1, None, Duration::ZERO);
    let counts = meters.counters.read();
    assert_eq!((counts.rollbacks, counts.failures), (1, 1));
}
