//! Signals are what their table says; counters count.

use inbox_engine::internal::{BatchOutcome, Tally, TransactionFault};
use outbox_core::TopicPartition;
use service_kit::testing::{assert_snapshot, capture_log, document, messages};

use super::*;
use crate::pipeline::release::Report;

fn conflict_again() -> Signal {
    Signal::ConflictAgain {
        partition: TopicPartition { topic: "orders".into(), partition: 3 },
        offset: 7,
        event_type: "OrderPaid".into(),
        event_id: "17".into(),
        aggregate: "Order/7".into(),
        times: 2,
        error: "deadlock detected".into(),
    }
}

fn handler_failed() -> Signal {
    Signal::HandlerFailed {
        partition: TopicPartition { topic: "orders".into(), partition: 3 },
        offset: Some(7),
        attempt: Some(1),
        event_type: Some("OrderPaid".into()),
        event_id: Some("e-1".into()),
        aggregate: Some("Order/7".into()),
        times: 4,
        error: "refused".into(),
    }
}

fn lane_held() -> Signal {
    Signal::LaneHeld {
        partition: TopicPartition { topic: "orders".into(), partition: 3 },
        lane: 3,
        offset: 7,
        event_type: "OrderPaid".into(),
        event_id: "17".into(),
        aggregate: "Order/7".into(),
        attempt: Some(2),
        seconds: 10,
        error: "no such account".into(),
    }
}

#[expect(clippy::too_many_lines, reason = "one of each")]
fn every() -> Vec<Signal> {
    let partition = TopicPartition { topic: "orders".into(), partition: 3 };
    let error = String::from("refused");
    let events = 5;
    vec![
        Signal::Assigned { partitions: 2 },
        Signal::Blocked { error: error.clone() },
        Signal::BrokerTrouble { times: 3, seconds: 30, error: error.clone() },
        Signal::CommitFailed { times: 3, error: error.clone() },
        Signal::CommitUnknown {
            partition: partition.clone(),
            events,
            times: 3,
            error: error.clone(),
        },
        Signal::Conflict { partition: partition.clone(), events, error: error.clone() },
        conflict_again(),
        Signal::Doubtful { reason: "`a` is longer than `b`".into() },
        Signal::Fenced { partition: partition.clone() },
        Signal::GivenUp { partition: partition.clone(), transactions: 2 },
        Signal::GroupResumed { topic: Some("orders".into()), reason: "topic_missing", seconds: 61 },
        Signal::GroupStalled {
            topic: Some("orders".into()),
            reason: "topic_missing",
            seconds: 30,
            sentence: "create it".into(),
        },
        handler_failed(),
        Signal::HttpFailed { error: error.clone() },
        Signal::HttpListening { address: "127.0.0.1:9464".into() },
        Signal::IntakeListening { address: "127.0.0.1:8080".into() },
        lane_held(),
        Signal::LetGo { partitions: 2 },
        Signal::Lost { partitions: 2 },
        Signal::Mismatch { partition: partition.clone(), offset: 7, error: error.clone() },
        Signal::Moving { partition: partition.clone() },
        Signal::Outage {
            partition: partition.clone(),
            partitions: 4,
            times: 3,
            seconds: 30,
            error: error.clone(),
        },
        Signal::OutageOver { of: "outage", partitions: Some(4), times: 90, seconds: 31 },
        Signal::Panicked {
            thread: "worker".into(),
            place: "src/pay.rs:7:9".into(),
            backtrace: Some("0: pay".into()),
            error: error.clone(),
        },
        Signal::Parked {
            partition: partition.clone(),
            events: 5,
            reasons: "exhausted 2, follower 3".into(),
            offset: 7,
            event_type: Some("OrderPaid".into()),
            event_id: Some("e-1".into()),
            aggregate: Some("Order/7".into()),
            error: error.clone(),
        },
        Signal::PruneFailed { times: 3, seconds: 30, error: error.clone() },
        Signal::Pruned { removed: 9 },
        Signal::QueueUnprepared { error: error.clone() },
        Signal::ReleaseFailed {
            partition: partition.clone(),
            offset: 7,
            attempt: Some(5),
            reason: "exhausted".into(),
            again_seconds: Some(60),
            error: error.clone(),
        },
        Signal::Released { partition: partition.clone(), events: 5, discarded: 1 },
        Signal::Revoked { partitions: 2 },
        Signal::ShutdownBegun,
        Signal::Stale {
            partition: partition.clone(),
            events: 2,
            offset: 7,
            version: Some(4),
            last: 5,
        },
        Signal::Standstill {
            partition: partition.clone(),
            reason: "reused",
            sentence: "reused: orders/3@7".into(),
        },
        Signal::Started {
            configuration: "consumer.toml".into(),
            database: "postgres://db/shop".into(),
            kafka: "kafka:9092".into(),
            http: "127.0.0.1:9464".into(),
            intake: "off".into(),
            program: "inbox-consumer 0.1.0".into(),
        },
        Signal::AggregateMoved { partition: partition.clone(), offset: 7, before: 1 },
        Signal::Stuck { error: error.clone() },
        Signal::TakenOver { partitions: 2, watermarks: "orders/0 at 41, orders/1 at 7".into() },
        Signal::Torn { partition: partition.clone(), offset: 7, error: error.clone() },
        Signal::TracesExported { spans: 40, seconds: 31 },
        Signal::TracesLost { spans: 40, error },
        Signal::Waiting {
            partition: partition.clone(),
            reason: "foreign_owner",
            sentence: "foreign_owner: host/1".into(),
        },
        Signal::WatermarkFenced { partition },
    ]
}

#[test]
fn every_signal_is_told_as_the_table_says() {
    let lines = capture_log(|| every().iter().for_each(Signal::emit));
    assert_eq!(lines.len(), SIGNALS.len());
    for ((level, fields), entry) in lines.iter().zip(SIGNALS) {
        assert_eq!(level, entry.level, "{}", entry.name);
        let told: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = [["message", "signal"].as_slice(), entry.fields].concat();
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            names.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(sorted(told), sorted(wanted), "{}", entry.name);
        assert!(fields.contains(&("signal".into(), entry.name.into())), "{fields:?}");
    }
}

#[test]
fn every_message_of_a_signal_is_its_snapshot() {
    let lines = capture_log(|| every().iter().for_each(Signal::emit));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/telemetry/snapshots/signals.txt");
    assert_snapshot(path, &messages(&lines));
}

#[test]
fn a_sentence_is_the_message_of_its_line_and_in_no_field() {
    let reason = "`a` is longer than `b`; lower the first";
    let lines = capture_log(|| {
        Signal::Doubtful { reason: reason.into() }.emit();
        Signal::HttpFailed { error: reason.into() }.emit();
        every().iter().for_each(Signal::emit);
    });
    for (_, fields) in &lines[..2] {
        assert_eq!(fields.len(), 2, "{fields:?}");
        assert!(fields.contains(&("message".into(), reason.into())), "{fields:?}");
    }
    let named = |(_, fields): &&(String, Vec<(String, String)>)| {
        let value = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone());
        value("event_type").is_some_and(|told| told == "OrderPaid")
            && value("aggregate").is_some_and(|told| told == "Order/7")
            && value("event_id").is_some()
            && value("message").is_some_and(|told| told.ends_with(": refused"))
    };
    assert_eq!(
        lines.iter().filter(named).count(),
        2,
        "a failure and what is parked name the event"
    );
    assert!(SIGNALS.iter().all(|entry| !entry.fields.contains(&"error")));
}

#[test]
fn signals_are_in_the_order_of_their_names() {
    assert!(SIGNALS.is_sorted_by_key(|entry| entry.name));
}

#[test]
fn the_document_is_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/telemetry.md");
    let wanted = reference();
    let there = document(path, &wanted);
    assert!(there == wanted, "docs/telemetry.md is old: run this test with UPDATE_DOCS=1");
}

#[test]
fn counters_count_what_a_transaction_did() {
    let counters = Counters::default();
    counters.count(&BatchOutcome::Committed(Tally {
        applied: 3,
        duplicates: 2,
        stale: 6,
        parked: 1,
        woken: 1,
        ignored: 4,
        dead_lettered: 5,
    }));
    counters.count(&BatchOutcome::Fault(TransactionFault::Conflict("deadlock".into())));
    counters.count(&BatchOutcome::Fault(TransactionFault::Fenced));
    counters.count(&BatchOutcome::Fault(TransactionFault::Unknown("connection lost".into())));
    let orders = TopicPartition { topic: "orders".into(), partition: 3 };
    Report { released: 5, discarded: 2, ..Report::default() }.tell(&orders, &counters);
    let counts = counters.read();
    assert_eq!((counts.released, counts.discarded, counts.release_failures), (5, 2, 0));
    assert_eq!((counts.applied, counts.duplicates, counts.parked, counts.ignored), (3, 2, 1, 4));
    assert_eq!(counts.stale, 6);
    assert_eq!((counts.batches, counts.conflicts, counts.resyncs, counts.outages), (2, 1, 2, 0));
}

#[test]
fn the_document_of_metrics_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let wanted = metrics::metrics_reference();
    let there = document(path, &wanted);
    assert!(there == wanted, "docs/metrics.md is old: run this test with UPDATE_DOCS=1");
}
