//! Text from strangers on a terminal: a canary goes through every command of both binaries, and their logs.
//!
//! It is in a type, an id, an aggregate, an error, an owner's name and what a person types.

use serde_json::Value;
use sqlx::AssertSqlSafe;
use tests::{Outbox, Record, SOON, Stage, Worker, counted, eventually};

use super::{
    commands::worker,
    parked_support::{Ran, finished, seq, typed},
};
use crate::programs::RELAY;

/// Colours, an erased screen in two dialects, text backwards, a bell, a line of its own.
const CANARY: &str =
    "A\u{1b}[31mB\u{9b}2JC\u{85}\u{202e}D\u{2066}E\u{200f}F\u{2028}G\u{7f}\u{7}\r\nFORGED";

/// What a person types: a line of its own is the person's.
const TYPED: &str = "A\u{1b}[31mB\u{9b}2JC\u{85}\u{202e}D\u{2066}E\u{200f}F\u{2028}G\u{7f}\u{7}";

fn harmless(what: &str, text: &str) {
    let found = text.chars().find(|c| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    });
    assert_eq!(found, None, "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("FORGED")), "{what}: {text}");
}

fn checked(args: &[&str], (code, out, err): Ran, right: &[i32]) -> String {
    harmless(&format!("{args:?}"), &out);
    harmless(&format!("{args:?}"), &err);
    assert!(code.is_some_and(|code| right.contains(&code)), "{args:?}: {code:?} {out}{err}");
    out
}

/// Runs a command that is to end with one of these codes.
async fn shown(stage: &Stage, args: &[&str], right: &[i32]) -> String {
    checked(args, typed(stage, args).await, right)
}

async fn write(schema: &tests::Schema, sql: &str, text: &str) {
    sqlx::query(AssertSqlSafe(sql)).bind(text).execute(schema.pool()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_consumer_prints_moves_a_cursor() {
    let stage = Stage::set("printed", 1).await;
    let strange = Record::event(CANARY, CANARY, CANARY, "{}");
    let unreadable = Record::event(CANARY, "Counted", CANARY, &format!("{{\"n\":{CANARY:?}}}"));
    stage.send(&[strange, unreadable, counted("a", 1)]).await;
    for format in ["json", "human"] {
        let mut command = worker(&stage);
        command.env("INBOX_LOG__FORMAT", format).arg("run");
        let mut running = Worker::spawn(&mut command);
        eventually(SOON, "all are settled", async || {
            (stage.effects().await, stage.parked("").await) == (1, 2)
        })
        .await;
        running.terminate();
        running.ended(SOON).await;
        harmless(format, &running.log());
    }
    let kept: i64 = stage.schema.number("SELECT count(*) FROM inbox_parked").await;
    assert_eq!(kept, 2, "both are parked");

    let errors = serde_json::json!([{ "at": "now", "attempt": 1, "error": CANARY }]).to_string();
    write(&stage.schema, "UPDATE inbox_parked SET errors = $1, intent_by = $1", &errors).await;
    let lane = serde_json::json!([{ "lane": 1, "offset": 7, "event_type": CANARY, "event_id": CANARY,
        "aggregate": CANARY, "attempt": 2, "since_ms": 0, "error": CANARY }]);
    let held = "UPDATE inbox_partitions SET held_lanes = $1, owner = 'x', owner_seen = now()";
    write(&stage.schema, held, &lane.to_string()).await;
    for args in [&["status"][..], &["status", "--lanes"]] {
        let out = shown(&stage, args, &[0]).await;
        assert!(out.contains("[31m"), "{args:?} shows it: {out}");
    }
    let words = "UPDATE inbox_partitions SET owner = $1, standstill = $1, held_lanes = NULL";
    write(&stage.schema, words, CANARY).await;

    let (first, second) = (seq(&stage, 0).await, seq(&stage, 1).await);
    for args in [
        &["check"][..],
        &["status"],
        &["parked", "list", "--followers"],
        &["parked", "show", &first],
        &["parked", "show", &second],
        &["migrate", "--print-grants", TYPED],
        &["prune"],
        &["parked", "list", "--type", CANARY, "--aggregate", CANARY],
        &["parked", "release", &first, "--as", CANARY, "--why", CANARY],
        &["parked", "discard", &first, "--as", CANARY, "--why", CANARY],
        &["parked", "discard", "--type", CANARY, "--as", CANARY, "--why", CANARY, "--yes"],
        &[
            "skip",
            "--topic",
            stage.topic.name(),
            "--partition",
            "0",
            "--to",
            "end",
            "--as",
            CANARY,
            "--why",
            CANARY,
            "--force",
        ],
        &["parked", "audit"],
    ] {
        shown(&stage, args, &[0, 5, 6]).await;
    }
    for args in [
        &["check", "--json"][..],
        &["status", "--json"],
        &["parked", "list", "--json"],
        &["parked", "show", &first, "--json"],
        &["parked", "audit", "--json"],
    ] {
        let out = shown(&stage, args, &[0, 5]).await;
        let told: Value = serde_json::from_str(&out).unwrap();
        assert!(args[0] == "check" || strings(&told).contains(&CANARY), "{args:?}: {out}");
    }
    // What a person mistypes comes back to the person.
    for args in [
        &[TYPED][..],
        &["parked", "show", TYPED],
        &["skip", TYPED, "--to", "end"],
        &["park", TYPED],
        &["retire", TYPED],
        &["parked", "audit", "--what", TYPED],
        &["status", "--set", TYPED],
        &["status", "--set", &format!("kafka.topics={TYPED}")],
        &["status", "--set", &format!("log.level={TYPED}")],
        &["status", "--config", TYPED],
    ] {
        shown(&stage, args, &[0, 2, 4, 6]).await;
    }
}

/// Every text in a document, as its reader sees it.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter().flat_map(strings).collect(),
        Value::Object(all) => all.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_relay_prints_moves_a_cursor() {
    let outbox = Outbox::set("printed", 1).await;
    let row = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, headers_checked, headers)
        VALUES (gen_random_uuid(), $1, $1, $1, false, '[[\"a\",{\"base64\":\"!\"}]]')";
    for format in ["json", "human"] {
        write(&outbox.schema, row, CANARY).await;
        let mut command = outbox.command(&RELAY);
        command.env("OUTBOX_LOG__FORMAT", format).arg("run");
        let mut running = Worker::spawn(&mut command);
        let sql = "SELECT count(*) FROM outbox_events WHERE parked_at IS NULL";
        eventually(SOON, "it is parked", async || outbox.schema.number(sql).await == 0).await;
        running.terminate();
        running.ended(SOON).await;
        harmless(format, &running.log());
    }
    write(&outbox.schema, "UPDATE outbox_parked SET error = $1", CANARY).await;
    let held = "UPDATE outbox_relays SET owner = $1, standstill = $1, lease_until = now() + interval '1 hour'";
    write(&outbox.schema, held, CANARY).await;
    let aggregate = format!("{CANARY}/{CANARY}");
    for (args, right) in [
        (&["check"][..], [0, 5]),
        (&["status"], [0, 0]),
        (&["failed", "list"], [0, 0]),
        (&["migrate", "--print-grants", TYPED], [0, 0]),
        (&[TYPED], [2, 2]),
        (&["failed", "list", "--aggregate", TYPED], [2, 2]),
        (&["status", "--set", TYPED], [2, 2]),
        (&["status", "--set", &format!("kafka.topic={TYPED}")], [2, 2]),
        (&["check", "--json"], [0, 5]),
        (&["status", "--json"], [0, 0]),
        (&["failed", "list", "--json"], [0, 0]),
        (&["failed", "retry", "--aggregate", &aggregate], [0, 0]),
        (&["failed", "discard", "--all", "--by", CANARY], [0, 0]),
    ] {
        let out = checked(args, finished(outbox.command(&RELAY), args).await, &right);
        if args.contains(&"--json") {
            let told: Value = serde_json::from_str(&out).unwrap();
            assert!(args[0] == "check" || strings(&told).contains(&CANARY), "{args:?}: {out}");
        }
    }
}
