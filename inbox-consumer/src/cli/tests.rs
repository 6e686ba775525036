//! Commands as a user meets them, as far as they need no server.

use std::time::Duration;

use inbox_engine::internal::{LogRange, NextOffset};
use inbox_store::internal::port::PartitionRow;
use kafka_kit::internal::{LogFacts, Logs, TopicState};
use outbox_core::{IdScope, TopicPartition};

use crate::consumer::INTAKE_TOPIC;

use super::{
    status::{hide, lines, rendered},
    *,
};

async fn ran(args: &[&str], env: &[(&str, &str)]) -> (Exit, String, String) {
    ran_as("billing", args, env).await
}

/// Exit, standard output and standard error of a command line.
pub(super) async fn ran_as(
    program: &str,
    args: &[&str],
    env: &[(&str, &str)],
) -> (Exit, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal::new(&mut out, &mut err);
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let args: Vec<OsString> = [&[program], args].concat().iter().map(Into::into).collect();
    let build = |routes: Routes<sqlx::Postgres>| future::ready(Ok::<_, String>(routes));
    let signals = catch(&args, &mut terminal).expect("signals are caught");
    let exit = command(args, env, signals, &mut terminal, build).await;
    (exit, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[tokio::test]
async fn help_names_the_binary_and_the_exit_codes() {
    let (exit, out, err) = ran(&["--help"], &[]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert!(out.contains("Usage: billing [OPTIONS] <COMMAND>"), "{out}");
    for (exit, means) in EXITS {
        assert!(out.contains(&format!("  {}  {means}", exit.code())), "{out}");
    }
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_wrong_usage() {
    let (exit, out, err) = ran(&["statsu"], &[]).await;
    assert_eq!((exit, out.as_str()), (Exit::Usage, ""));
    assert!(err.starts_with("error: unrecognized subcommand 'statsu'"), "{err}");
    assert!(err.contains("'status'"), "{err}");
    // What follows says how it is used, and is no error of its own.
    assert!(err.contains("\nUsage: "), "{err}");
    assert_eq!(err.matches("error:").count(), 1, "{err}");
}

#[tokio::test]
async fn a_typo_in_the_configuration_ends_with_its_sentence() {
    let (exit, _, err) = ran(&["run", "--set", "kafka.botstrap=x"], &[]).await;
    assert_eq!(exit, Exit::Usage);
    let expected =
        "error: unknown key `kafka.botstrap` in --set; did you mean `kafka.bootstrap`?\n";
    assert_eq!(err, expected);
}

#[tokio::test]
async fn each_missing_key_is_an_error_of_its_own() {
    let (exit, _, err) = ran(&["status"], &[]).await;
    assert_eq!(exit, Exit::Usage);
    assert_eq!(err.lines().count(), 4, "{err}");
    assert!(err.lines().all(|line| line.starts_with("error: `")), "{err}");
}

#[tokio::test]
async fn the_statements_of_the_tables_are_printed_without_a_configuration() {
    let (exit, out, err) = ran(&["migrate", "--print"], &[]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert!(out.contains("inbox_events") && out.contains("outbox_events"), "{out}");
}

#[tokio::test]
async fn a_dead_database_is_named_without_its_password() {
    let env = [
        ("INBOX_CONSUMER__NAME", "billing"),
        ("INBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1"),
        ("INBOX_KAFKA__TOPICS", "orders"),
        ("INBOX_DATABASE__URL", "postgres://u:c4n4ry@127.0.0.1:1/nowhere"),
        ("INBOX_LOG__LEVEL", "error"),
    ];
    for command in ["migrate", "status", "prune"] {
        let (exit, out, err) = ran(&[command], &env).await;
        assert!(!err.contains("c4n4ry"), "{err}");
        assert_eq!((exit, out.as_str()), (Exit::Database, ""), "{command}: {err}");
        assert!(err.starts_with("error: "), "{err}");
    }
}

#[tokio::test]
async fn a_consumer_without_handlers_is_wrong_usage() {
    let env = [
        ("INBOX_CONSUMER__NAME", "billing"),
        ("INBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1"),
        ("INBOX_KAFKA__TOPICS", "orders"),
        ("INBOX_DATABASE__URL", "postgres://u@127.0.0.1:1/nowhere"),
        ("INBOX_LOG__FORMAT", "human"),
    ];
    let (exit, _, err) = ran(&["run"], &env).await;
    assert_eq!(exit, Exit::Usage);
    assert!(err.starts_with("error: no event type has a handler"), "{err}");
}

#[test]
fn the_document_has_every_exit_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/commands.md");
    let page = std::fs::read_to_string(path).unwrap();
    for (exit, means) in EXITS {
        assert!(page.contains(&format!("| {} | {means} |", exit.code())), "{means}");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/mod.rs");
    let module = std::fs::read_to_string(path).unwrap();
    for (exit, means) in EXITS {
        assert!(module.contains(&format!("//! | {} | {means} |", exit.code())), "{means}");
    }
}

pub(super) fn row(partition: i32) -> PartitionRow {
    PartitionRow {
        topic: "orders".into(),
        topic_id: [7; 16],
        partition,
        watermark: 100,
        reached: 130,
        epoch: (3 << 20) + 7,
        lane_count: 16,
        lane_rule: "xxh3-64/1:key".into(),
        next_lanes: None,
        id_scope: IdScope::Consumer,
        owner: Some("host/1".into()),
        owner_seen_seconds: Some(0.5),
        parked_aggregates: 1,
        gaps: 0,
        parked_events: 2,
        standstill: None,
        held_lanes: None,
        retired: false,
    }
}

pub(super) fn facts(partition: i32, end: i64, committed: Option<i64>) -> LogFacts {
    LogFacts {
        partition: TopicPartition { topic: "orders".into(), partition },
        log: LogRange { start: NextOffset(10), end: NextOffset(end) },
        committed: committed.map(NextOffset),
    }
}

#[test]
fn status_puts_database_and_kafka_together() {
    let silent = PartitionRow { owner_seen_seconds: Some(90.4), ..row(1) };
    let left = PartitionRow { owner: None, owner_seen_seconds: None, ..row(2) };
    let stopped = PartitionRow { standstill: Some("reused: offset 7".into()), ..row(3) };
    let retired = PartitionRow { retired: true, ..row(9) };
    let waits = PartitionRow { gaps: 2, ..row(0) };
    let rows = vec![stopped, waits, silent, left, retired];
    let facts = vec![
        facts(0, 150, Some(90)),
        facts(1, 150, Some(90)),
        facts(2, 150, Some(90)),
        facts(3, 150, Some(90)),
        facts(4, 150, None),
    ];
    let lines = lines(rows, logs(facts), Duration::from_secs(45));
    let expected = "\
TOPIC   PARTITION  COMMITTED  WATERMARK  LOG END  LAG  EPOCH  IN FLIGHT  PARKED  OWNER   STALLED
orders          0         90        100      150   50      3         30       2  host/1  gap: 2 events wait for an earlier version
orders          1         90        100      150   50      3         30       2  host/1  owner_silent: for 90 s
orders          2         90        100      150   50      3         30       2  -       not_owned: no running consumer owns it
orders          3         90        100      150   50      3         30       2  host/1  reused: offset 7
orders          4          -          -      150  140      -          -       0  -       not_owned: no consumer of this name has ever owned it";
    assert_eq!(rendered(&lines), expected);
}

/// An intake has no log: its lanes count their own events.
#[test]
fn status_shows_no_offsets_of_an_intake() {
    let intake = PartitionRow { topic: INTAKE_TOPIC.into(), watermark: 0, reached: 169, ..row(0) };
    let lines = lines(vec![intake, row(1)], Logs::default(), Duration::from_secs(45));
    let expected = "\
TOPIC        PARTITION  COMMITTED  WATERMARK  LOG END  LAG  EPOCH  IN FLIGHT  PARKED  OWNER   STALLED
http:events          0          -          -        -    -      3          -       2  host/1
orders               1          -        100        -    -      3         30       2  host/1";
    assert_eq!(rendered(&lines), expected);
    let json = serde_json::to_value(&lines[0]).unwrap();
    for field in ["committed", "watermark", "log_end", "lag", "in_flight"] {
        assert_eq!(json.get(field), Some(&serde_json::Value::Null), "{field}");
    }
}

/// The database is read before Kafka: what an owner has committed since is settled.
#[test]
fn status_shows_no_lag_for_what_was_settled_while_it_was_read() {
    let status = |owner: Option<&str>, committed| {
        let row = PartitionRow { owner: owner.map(str::to_owned), ..row(0) };
        let lines = lines(vec![row], logs(vec![facts(0, 150, committed)]), Duration::from_secs(45));
        let line = serde_json::to_value(&lines[0]).unwrap();
        ["watermark", "lag", "in_flight"].map(|name| line[name].as_i64().unwrap())
    };
    assert_eq!(status(Some("host/1"), Some(150)), [150, 0, 0]);
    assert_eq!(status(Some("host/1"), Some(90)), [100, 50, 30]);
    assert_eq!(status(None, Some(150)), [100, 50, 30], "somebody has moved the group by hand");
}

pub(super) fn logs(facts: Vec<LogFacts>) -> Logs {
    let state = TopicState { id: [7; 16], partitions: Some(5), ..TopicState::UNKNOWN };
    Logs { facts, topics: [("orders".to_owned(), Some(state))].into() }
}

/// A log that is not the one that the database knows has no lag, and a name.
#[test]
fn status_names_a_log_that_is_another_one() {
    let stands = |row: PartitionRow, logs: Logs| {
        let partition = row.partition;
        let lines = lines(vec![row], logs, Duration::from_secs(45));
        let lines = serde_json::to_value(&lines).unwrap();
        let lines = lines.as_array().unwrap();
        let line = lines.iter().find(|line| line["partition"] == partition).unwrap();
        assert_eq!(line["lag"], serde_json::Value::Null, "{line}");
        line["standstill"].as_str().unwrap_or_default().to_owned()
    };
    let log = || logs(vec![facts(0, 150, Some(90))]);
    let other = PartitionRow { topic_id: [8; 16], ..row(0) };
    assert!(stands(other, log()).starts_with("topic_recreated: "));
    let short = stands(row(0), logs(vec![facts(0, 64, Some(90))]));
    assert_eq!(short, "log_ends_below: the log ends at 64, below the watermark 100");
    assert!(stands(row(5), log()).starts_with("topic_missing: topic orders has 5 partitions"));
    let none = Logs { topics: [("orders".to_owned(), None)].into(), ..Logs::default() };
    assert!(stands(row(0), none).starts_with("topic_missing: topic orders does not exist"));
    // What its owner says has more words.
    let told = PartitionRow { standstill: Some("reused: offset 7".into()), ..row(5) };
    assert_eq!(stands(told, log()), "reused: offset 7");
}

#[test]
fn status_leaves_out_topics_that_are_not_configured() {
    let old = PartitionRow { topic: "old".into(), ..row(0) };
    let mut lines = lines(vec![old, row(0), row(1)], Logs::default(), Duration::from_secs(45));
    assert_eq!(hide(&mut lines, &["orders".into()]), 1);
    assert_eq!(lines.len(), 2);
    assert!(!rendered(&lines).contains("old"));
}

#[test]
fn status_without_kafka_shows_what_the_database_knows() {
    let lines = lines(vec![row(0)], Logs::default(), Duration::from_secs(45));
    let json = serde_json::to_value(&lines).unwrap();
    assert_eq!(json[0]["watermark"], 100);
    assert_eq!(json[0]["lag"], serde_json::Value::Null);
    assert_eq!(json[0]["parked_events"], 2);
}

pub(super) const WHOLE: &[(&str, &str)] = &[
    ("INBOX_CONSUMER__NAME", "billing"),
    ("INBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1"),
    ("INBOX_KAFKA__TOPICS", "orders"),
    ("INBOX_DATABASE__URL", "postgres://u:c4n4ry@127.0.0.1:1/nowhere"),
];

#[tokio::test]
async fn the_version_is_printed() {
    let (exit, out, err) = ran(&["--version"], &[]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert_eq!(out, format!("inbox-consumer {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn the_effective_configuration_names_its_sources_and_masks_secrets() {
    let set =
        ["--set", "lanes.count=8", "--set", "handlers.0.event_type=a", "--set", "handlers.0.sql=x"];
    let show = [&["config", "show"], &set[..]].concat();
    let (exit, out, err) = ran(&show, WHOLE).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    let row = |key: &str| {
        let line = out.lines().find(|line| line.split(' ').next() == Some(key));
        let line = line.unwrap_or_else(|| panic!("{key} in {out}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    let variable = "the environment variable INBOX_CONSUMER__NAME";
    assert_eq!(row("consumer.name"), ["consumer.name", "\"billing\"", variable]);
    assert_eq!(row("lanes.count"), ["lanes.count", "8", "--set"]);
    assert_eq!(row("handlers.0.sql")[1..], ["\"x\"", "--set"]);
    assert_eq!(row("http.listen")[1..], ["\"auto\"", "default"]);
    assert_eq!(row("database.url")[1], "\"***\"");
    assert!(!out.contains("c4n4ry"), "{out}");

    let (_, out, _) = ran(&[&show[..], &["--json"]].concat(), WHOLE).await;
    let all: Vec<serde_json::Value> = serde_json::from_str(&out).unwrap();
    let lanes = serde_json::json!({ "key": "lanes.count", "value": 8, "from": "--set" });
    assert!(all.contains(&lanes), "{out}");
}

/// Its keys are all there, and what has to be set is named when it is loaded as it is.
#[tokio::test]
async fn the_example_is_a_configuration_once_its_empty_keys_are_set() {
    let (exit, example, err) = ran(&["config", "example"], &[]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    for key in crate::config::KEYS {
        assert!(example.contains(&format!("{} = ", key.name())), "{}", key.path);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("consumer.toml");
    let filled = example
        .replace("\nname = \"\"", "\nname = \"billing\"")
        .replace("\nbootstrap = \"\"", "\nbootstrap = \"localhost:1\"")
        .replace("\ntopics = []", "\ntopics = [\"orders\"]")
        .replace("\nurl = \"\"", "\nurl = \"postgres://u@localhost/d\"");
    std::fs::write(&file, &filled).unwrap();
    let config = ["--config", file.to_str().unwrap(), "config", "show"];
    let (exit, _, err) = ran(&config, &[]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""), "{filled}");
    assert!(filled.lines().all(|line| line.len() <= 100 || line.contains(" = ")), "{filled}");
}

#[tokio::test]
async fn completions_and_manual_pages_are_generated() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef"), ("fish", "complete -c")] {
        let (exit, out, _) = ran(&["completions", shell], &[]).await;
        assert_eq!(exit, Exit::Done);
        assert!(out.contains(part) && out.contains("parked"), "{out}");
    }
    let (exit, out, _) = ran(&["man"], &[]).await;
    assert_eq!(exit, Exit::Done);
    assert!(out.contains(".TH inbox-consumer") && out.contains("Exit codes"), "{out}");
    let folder = tempfile::tempdir().unwrap();
    let (exit, ..) = ran(&["man", folder.path().to_str().unwrap()], &[]).await;
    assert_eq!(exit, Exit::Done);
    assert!(folder.path().join("inbox-consumer-status.1").exists());
}

/// What comes before the log is started is for people; afterwards everything is a line of it.
#[tokio::test]
async fn what_ends_a_run_is_a_line_of_a_log_of_json() {
    let json = [WHOLE, &[("INBOX_LOG__FORMAT", "json"), ("INBOX_LOG__LEVEL", "error")]].concat();
    let (exit, _, err) = ran(&["run"], &json).await;
    assert_eq!(exit, Exit::Usage);
    let line: serde_json::Value = serde_json::from_str(&err).unwrap();
    assert_eq!((&line["level"], &line["consumer"]), (&"ERROR".into(), &"billing".into()));
    assert!(line["message"].as_str().unwrap().starts_with("no event type has a handler"), "{err}");
    let (_, _, err) = ran(&["status"], &json).await;
    assert!(err.starts_with("error: "), "a person's command: {err}");
}
