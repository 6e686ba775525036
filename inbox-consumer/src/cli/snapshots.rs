//! What users read, as it is today: each text is a file of the folder `snapshots`, so that a change of it is seen.

use std::{fmt::Write, time::Duration};

use inbox_engine::internal::{
    LeaderEpoch, LogPoint, NextOffset, Settled, Start, first_watermark, resume,
};
use inbox_store::internal::port::{Fit, ParkedCounts, ParkedLoad, ParkedRow, PartitionRow};
use kafka_kit::internal::{Forbidden, Logs, TopicState, missing};
use outbox_core::{Reader, Record};
use service_kit::{
    brokers::BrokerTrouble,
    testing::{assert_snapshot, help_of_commands},
};

use super::{
    parked::{listed, summary},
    status::{held, lines, rendered},
    tests::{WHOLE, facts, ran_as, row},
    words::REASONS,
    *,
};

pub(super) fn snapshot(name: &str, text: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/snapshots/");
    assert_snapshot(&format!("{path}{name}.txt"), text);
}

#[tokio::test]
async fn the_help_of_every_command_is_its_snapshot() {
    let all = help_of_commands("inbox-consumer", async |args| {
        let (exit, help, _) = ran_as("inbox-consumer", args, &[]).await;
        assert_eq!(exit, Exit::Done, "{args:?}");
        help
    })
    .await;
    snapshot("help", &all);
}

#[test]
fn the_status_of_partitions_is_its_snapshot() {
    let lane = serde_json::json!([{
        "lane": 3, "offset": 100, "event_type": "OrderPaid", "event_id": "17", "aggregate": "Order/7",
        "attempt": 2, "since_ms": i64::MAX, "error": "no such account",
    }]);
    let rows = vec![
        PartitionRow { parked_events: 0, parked_aggregates: 0, ..row(0) },
        PartitionRow {
            standstill: Some("log_starts_above: the log begins at 120".into()),
            ..row(1)
        },
        PartitionRow { owner: None, owner_seen_seconds: None, ..row(2) },
        PartitionRow { owner_seen_seconds: Some(90.4), ..row(3) },
        PartitionRow { gaps: 2, ..row(4) },
        PartitionRow { next_lanes: Some((32, "xxh3-64/1:key".into())), ..row(5) },
        PartitionRow { held_lanes: Some(lane.to_string()), ..row(6) },
        PartitionRow { topic_id: [8; 16], ..row(7) },
    ];
    let facts = (0..9).map(|partition| facts(partition, 150, Some(100))).collect();
    let state = TopicState { id: [7; 16], partitions: Some(9), ..TopicState::UNKNOWN };
    let logs = Logs { facts, topics: [("orders".to_owned(), Some(state))].into() };
    let lines = lines(rows, logs, Duration::from_secs(45));
    snapshot("status", &format!("{}\n\n{}", rendered(&lines), held(&lines)));
}

fn parked(seq: i64) -> ParkedRow {
    ParkedRow {
        seq,
        topic: "orders".into(),
        partition: 3,
        offset: 40 + seq,
        leader_epoch: 1,
        lane: 2,
        event_id: format!("e-{seq}"),
        event_type: "OrderPaid".into(),
        aggregate: "Order/7".into(),
        reason: "exhausted".into(),
        attempts: 4,
        releases: 1,
        parked_at: "2026-01-31 09:30:00+00".into(),
        due_at: Some("2026-01-31 09:31:00+00".into()),
        due_seconds: Some(60.0),
        intent: None,
        intent_by: None,
        intent_at: None,
        error: Some("no such account".into()),
        head: seq,
        followers: 2,
        retired: false,
    }
}

#[test]
fn the_list_of_parked_events_and_their_reasons_are_a_snapshot() {
    let waits = ParkedRow { due_at: Some("infinity".into()), due_seconds: None, ..parked(2) };
    let follows = ParkedRow {
        reason: "follower".into(),
        due_at: None,
        due_seconds: None,
        head: 1,
        followers: 0,
        error: None,
        ..parked(3)
    };
    let asked = ParkedRow { intent: Some("release".into()), ..parked(4) };
    let counts =
        ParkedCounts { events: 6, aggregates: 3, followers: 3, due: 1, scheduled: 1, waiting: 1 };
    let mut text = format!(
        "{}\n\n{}\n{}\n",
        listed(&[parked(1), waits, follows, asked], false),
        summary(counts, 3, false),
        summary(ParkedCounts::default(), 0, false)
    );
    for reason in REASONS {
        let _ = write!(text, "\n{}: {}\n  {}\n", reason.name, reason.means, reason.advice);
    }
    snapshot("parked", &text);
}

/// What is wrong with a configuration: key and value, over one that is right.
const WRONG: &[(&str, &str)] = &[
    ("INBOX_KAFKA__BOTSTRAP", "x"),
    ("INBOX_KAFKA_TOPICS", "x"),
    ("INBOX_LANES__COUNT", "many"),
    ("INBOX_LANES__COUNT", "0"),
    ("INBOX_RETRY__DELAY_MIN", "100"),
    ("INBOX_CONSUMER__NAME", "a b"),
    ("INBOX_EVENTS__FORMAT", "json"),
    ("INBOX_EVENTS__DEAD_LETTER_TOPIC", "orders"),
    ("INBOX_DATABASE__URL", "mysql://db/shop"),
    ("INBOX_DATABASE__URL", "postgres://u@db/shop?sslmode=disable"),
    ("INBOX_DATABASE__LOCK_TIMEOUT", "1m"),
    ("INBOX_KAFKA__BOOTSTRAP", "broker:9092"),
    ("INBOX_KAFKA__RAW__ENABLE_AUTO_COMMIT", "true"),
    ("INBOX_DATABASE__IDLE_TIMEOUT", "10s"),
    ("INBOX_HTTP__LISTEN", "9464"),
    ("INBOX_DATABASE__URL_FILE", "/run/secrets/url"),
];

#[tokio::test]
async fn the_messages_that_users_meet_most_are_a_snapshot() {
    let mut text = String::from("# Configuration\n\n");
    for (key, value) in WRONG {
        let mut env: Vec<(&str, &str)> =
            WHOLE.iter().copied().filter(|(name, _)| name != key).collect();
        env.push((key, value));
        let (_, _, error) = ran_as("inbox-consumer", &["run"], &env).await;
        let _ = writeln!(text, "{key}={value}\n{error}");
    }
    let (_, _, error) = ran_as("inbox-consumer", &["run"], &[]).await;
    let _ = write!(text, "no configuration\n{error}\n# Outages\n\n");
    let (_, _, error) = ran_as("inbox-consumer", &["status"], WHOLE).await;
    text.push_str(&error);
    let why = "2/2 brokers are down";
    for trouble in [BrokerTrouble::AllDown, BrokerTrouble::Credentials, BrokerTrouble::Tls] {
        let _ = writeln!(text, "{}", trouble.sentence("broker:9092", why));
    }
    text.push_str("\n# Stalled\n\n");
    for line in stalls() {
        let _ = writeln!(text, "{line}");
    }
    text.push_str("\n# Parked\n\n");
    for error in unreadable() {
        let _ = writeln!(text, "{error}");
    }
    snapshot("messages", &text);
}

fn stalls() -> Vec<String> {
    let log = (NextOffset(20), NextOffset(30));
    let settled = |watermark, log_end_seen: Option<i64>| Settled {
        watermark: NextOffset(watermark),
        record: LogPoint { next: NextOffset(0), leader_epoch: LeaderEpoch::UNKNOWN },
        log_end_seen: log_end_seen.map(NextOffset),
    };
    let resumed = |watermark, seen| resume(settled(watermark, seen), None, log).unwrap_err();
    let begun = |start, own: Option<&str>| {
        let committed = own.map(|_| NextOffset(7));
        first_watermark(start, true, committed, own, log).unwrap_err()
    };
    let stalls = [
        resumed(10, None),
        resumed(40, None),
        resumed(25, Some(22)),
        begun(Start::Error, None),
        begun(Start::Earliest, Some("the database was restored")),
    ];
    let mut all: Vec<String> = stalls.iter().map(ToString::to_string).collect();
    let amount = |events| ParkedLoad { aggregates: 1, events, bytes: 1 };
    all.push(amount(6).beyond(amount(5)));
    all.push(missing("orders"));
    let forbidden = Forbidden { resource: "topic", name: "orders".into(), operation: "READ" };
    all.push(forbidden.to_string());
    for version in [None, Some(4), Some(6), Some(7)] {
        let fit = Fit::of("inbox", version, 5);
        let (Fit::Newer(text) | Fit::Unfit(text)) = fit else { unreachable!("{fit:?}") };
        all.push(text);
    }
    all
}

fn unreadable() -> Vec<String> {
    let reader = Reader::own(64);
    let large = Record { payload: Some(vec![b'x'; 65].into()), ..Record::default() };
    let records = [Record::default(), large];
    let read = |record: &Record| reader.read("orders", 0, 7, record).unwrap_err().to_string();
    records.iter().map(read).collect()
}
