//! What users read, as it is today: each text is a file of the folder `snapshots`, so that a change of it is seen.

use std::fmt::Write;

use service_kit::testing::{assert_snapshot, help_of_commands};

use super::{
    check::doubt,
    failed::{Steps, describe_discard, describe_retry, listed},
    status::table,
    tests::{WHOLE, parked_row, ran},
    *,
};
use crate::port::{Choice, FailedRow, Overview, ReportedOutage};

fn snapshot(name: &str, text: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/snapshots/");
    assert_snapshot(&format!("{path}{name}.txt"), text);
}

#[tokio::test]
async fn the_help_of_every_command_is_its_snapshot() {
    let all = help_of_commands("outbox-relay", async |args| {
        let (exit, help, _) = ran(args, &[]).await;
        assert_eq!(exit, Exit::Done, "{args:?}");
        help
    })
    .await;
    snapshot("help", &all);
}

fn outage() -> ReportedOutage {
    ReportedOutage {
        destination: "shop".into(),
        seconds: 75,
        error: "webhook shop answered 500".into(),
    }
}

#[test]
fn the_status_of_the_outbox_is_its_snapshot() {
    let none = Overview::default();
    let stalled = Overview {
        waiting: 28,
        held: 4,
        oldest_seconds: Some(90),
        failed: 1,
        retrying: 2,
        delayed: 3,
        next_due_seconds: Some(12),
        waiting_for_topic: 5,
        waiting_for_destination: 6,
        missing_topics: vec!["shop.Order".into()],
        destinations_out: vec!["shop".into()],
        destination_outages: vec![outage()],
        sent: 1_000,
        holder: Some("host/1".into()),
        taken_seconds: Some(3_600),
        lease_left_seconds: Some(9),
        fence: 7,
        relays: 3,
        standstill: Some("kafka_outage: no broker of Kafka at broker:9092 can be reached".into()),
    };
    let silent = Overview { lease_left_seconds: Some(0), ..stalled.clone() };
    let dead = Overview { holder: None, lease_left_seconds: None, ..stalled.clone() };
    let all = [none, stalled, silent, dead].map(|overview| table(&overview));
    snapshot("status", &all.join("\n\n"));
}

#[test]
fn the_list_of_failed_rows_and_what_becomes_of_them_are_a_snapshot() {
    let row = FailedRow { attempts: 15, error: "webhook shop answered 422".into(), ..parked_row() };
    let retried = FailedRow { seq: 8, attempts: 2, retry_seconds: Some(12), ..row.clone() };
    let due = FailedRow { seq: 9, attempts: 2, retry_seconds: Some(0), ..row.clone() };
    let topic = FailedRow { seq: 10, waits_for: Some("x".into()), ..row.clone() };
    let all = Choice::default();
    let one = Choice { seq: Some(4), ..Choice::default() };
    let steps = |rows, claimed| Steps { rows, claimed };
    let lines = [
        listed(&[row, retried, due, topic], &[outage()], &all, false),
        listed(&[], &[], &all, false),
        listed(&[], &[], &one, false),
        describe_retry(steps(1, 0)),
        describe_retry(steps(3, 1)),
        describe_discard(steps(1, 0)),
        describe_discard(steps(3, 2)),
    ];
    snapshot("failed", &lines.join("\n\n"));
}

/// Findings of the configuration, of a database that cannot be reached, and of rows.
#[tokio::test]
async fn the_findings_of_check_are_a_snapshot() {
    let without_kafka = [
        "check",
        "--set",
        "routes.0.to=shop",
        "--set",
        "webhooks.0.name=shop",
        "--set",
        "webhooks.0.url=http://127.0.0.1:1",
        "--set",
        "routes.0.event_type=Order*",
        "--set",
        "database.statement_timeout=5m",
    ];
    let (exit, out, err) = ran(&without_kafka, WHOLE).await;
    assert_eq!(exit, Exit::Findings);
    let mut text = format!("{err}{out}\n");
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("outbox.db").display());
    let whole: Vec<_> = WHOLE.iter().copied().filter(|(name, _)| !name.ends_with("URL")).collect();
    let sqlite = [&whole[..], &[("OUTBOX_DATABASE__URL", url.as_str())]].concat();
    assert_eq!(ran(&["migrate"], &sqlite).await.0, Exit::Done);
    let (exit, out, err) = ran(&without_kafka, &sqlite).await;
    assert_eq!(exit, Exit::Done, "{err}");
    let _ = writeln!(text, "{err}{out}");
    let parked = Overview { failed: 2, held: 3, ..Overview::default() };
    let topics = vec!["shop.Order".into()];
    let topic = Overview { waiting_for_topic: 1, missing_topics: topics, ..Overview::default() };
    let out = vec!["shop".into()];
    let down =
        Overview { waiting_for_destination: 5, destinations_out: out, ..Overview::default() };
    for overview in [parked, topic, down] {
        let _ = writeln!(text, "warning: {}", doubt(&overview).unwrap());
    }
    snapshot("check", &text);
}

/// What is wrong with a configuration: key and value, over one that is right.
const WRONG: &[&str] = &[
    "kafka.botstrap=x",
    "kafka.topic={order}",
    "kafka.topic=or ders",
    "kafka.bootstrap=broker:9092",
    "kafka.raw.acks=0",
    "relay.lease=0s",
    "retry.attempts_max=many",
    "retry.delay_min=1h",
    "wake.poll_interval=0s",
    "database.schema=A b",
    "http.listen=9465",
    "webhooks.0.url=https://shop",
    "routes.0.to=shpo",
];

#[tokio::test]
async fn the_messages_that_users_meet_most_are_a_snapshot() {
    let mut text = String::from("# Configuration\n\n");
    for wrong in WRONG {
        let (_, _, error) =
            ran(&["run", "--set", wrong, "--set", "wake.notify=false"], WHOLE).await;
        let _ = writeln!(text, "{wrong}\n{error}");
    }
    let (_, _, error) = ran(&["run"], &[]).await;
    let _ = write!(text, "no configuration\n{error}\n# Commands\n\n");
    for args in
        [&["failed", "discard"][..], &["failed", "retry", "--all", "--seq", "7"], &["status"]]
    {
        let (_, _, error) = ran(args, WHOLE).await;
        let _ = writeln!(text, "$ outbox-relay {}\n{error}", args.join(" "));
    }
    snapshot("messages", &text);
}
