//! Commands as a user meets them, as far as they need no server.

use super::{
    check::doubt,
    failed::{Steps, describe_discard, describe_retry, listed},
    status::table,
    *,
};
use crate::{
    Relay,
    config::Overrides,
    destination::{Delivery, Outcome, Sink},
    port::{Choice, FailedRow, Overview, ReportedOutage},
};
use service_kit::testing::capture_log;

/// Exit, standard output and standard error of a command line.
pub(super) async fn ran(args: &[&str], env: &[(&str, &str)]) -> (Exit, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal::new(&mut out, &mut err);
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let exit = command([&["outbox-relay"], args].concat(), env, &mut terminal).await;
    (exit, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

pub(super) const WHOLE: &[(&str, &str)] = &[
    ("OUTBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1"),
    ("OUTBOX_KAFKA__TOPIC", "{aggregate_type}"),
    ("OUTBOX_DATABASE__URL", "postgres://u:c4n4ry@127.0.0.1:1/nowhere"),
    ("OUTBOX_LOG__LEVEL", "error"),
    ("OUTBOX_LOG__FORMAT", "human"),
];

#[tokio::test]
async fn help_names_the_exit_codes() {
    let (exit, out, err) = ran(&["--help"], &[]).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    for (exit, means) in EXITS {
        assert!(out.contains(&format!("  {}  {means}", exit.code())), "{out}");
    }
}

/// What the user typed, the exit, and parts of the one sentence.
type Case = (&'static [&'static str], Exit, &'static [&'static str]);

const BAD_INPUT: &[Case] = &[
    (&["statsu"], Exit::Usage, &["unrecognized subcommand 'statsu'"]),
    (
        &["run", "--set", "kafka.botstrap=x"],
        Exit::Usage,
        &["unknown key `kafka.botstrap`", "did you mean `kafka.bootstrap`?"],
    ),
    (
        &["run", "--set", "kafka.topic={order}"],
        Exit::Usage,
        &["`kafka.topic`", "unknown placeholder {order}", "{aggregate_type}"],
    ),
    (
        &["run", "--set", "kafka.topic=or ders"],
        Exit::Usage,
        &["`kafka.topic`", "not a valid topic"],
    ),
    (
        &["run", "--set", "wake.notify=perhaps"],
        Exit::Usage,
        &["`wake.notify` in --set: expected true or false"],
    ),
    (
        &["run", "--set", "wake.notify=false", "--set", "wake.poll_interval=0s"],
        Exit::Usage,
        &["nothing would wake the relay", "set `wake.poll_interval`"],
    ),
    (
        &["run", "--set", "database.url=sqlite:x", "--set", "wake.poll_interval=0s"],
        Exit::Usage,
        &["nothing would wake the relay", "SQLite"],
    ),
    (
        &["run", "--set", "kafka.raw.acks=1"],
        Exit::Usage,
        &["`kafka.raw` may not contain `acks`", "remove it"],
    ),
    (
        &["run", "--set", "kafka.raw.transactional.id=x"],
        Exit::Usage,
        &["`kafka.raw` may not contain `transactional.id`", "kafka.transactional_id_prefix"],
    ),
    (
        &["run", "--set", "kafka.sasl_password=c4n4ry"],
        Exit::Usage,
        &["SASL is configured but not used"],
    ),
    (
        &["run", "--set", "kafka.transactional_id_prefix=a b"],
        Exit::Usage,
        &["`kafka.transactional_id_prefix`"],
    ),
    (&["run", "--set", "database.url=oracle://x"], Exit::Usage, &["cannot tell the database"]),
    (&["run", "--set", "relay.lease=10ms"], Exit::Usage, &["`relay.lease`", "duration 1s–10m"]),
    (
        &["run", "--set", "relay.enabled=perhaps"],
        Exit::Usage,
        &["`relay.enabled` in --set: expected true or false"],
    ),
    (
        &["run", "--set", "retry.attempts_max=0"],
        Exit::Usage,
        &["`retry.attempts_max`", "integer 1–1000"],
    ),
    (
        &["run", "--set", "retry.attempts_max=1001"],
        Exit::Usage,
        &["`retry.attempts_max`", "integer 1–1000"],
    ),
    (
        &["run", "--set", "retry.delay_min=9ms"],
        Exit::Usage,
        &["`retry.delay_min`", "duration 10ms–1h"],
    ),
    (
        &["run", "--set", "retry.delay_max=25h"],
        Exit::Usage,
        &["`retry.delay_max`", "duration 10ms–1d"],
    ),
    (
        &["check", "--set", "retry.delay_min=20m"],
        Exit::Usage,
        &["`retry.delay_min` (20m) is longer than `retry.delay_max` (10m)"],
    ),
    (&["failed", "show"], Exit::Usage, &["<SEQ>"]),
    (&["failed", "show", "x"], Exit::Usage, &["invalid value 'x' for '<SEQ>'"]),
    (&["failed", "list", "--seq", "x"], Exit::Usage, &["invalid value 'x' for '--seq <SEQ>'"]),
    (&["failed", "list", "--max", "x"], Exit::Usage, &["invalid value 'x' for '--max <MAX>'"]),
    (
        &["migrate", "--notify-trigger", "perhaps"],
        Exit::Usage,
        &["invalid value 'perhaps' for '--notify-trigger <STATE>'", "on, off"],
    ),
    (&["failed", "retry"], Exit::Usage, &["choose rows", "--all"]),
    (
        &["failed", "discard", "--all", "--seq", "3"],
        Exit::Usage,
        &["--all cannot be combined with other filters"],
    ),
    (&["failed", "list", "--aggregate", "Order"], Exit::Usage, &["write TYPE/ID"]),
    (
        &["migrate", "--notify-trigger", "on", "--set", "database.url=sqlite:/nowhere/x"],
        Exit::Usage,
        &["SQLite has no notifications"],
    ),
    (&["status"], Exit::Database, &["127.0.0.1:1/nowhere is unreachable", "check its URL"]),
    (&["migrate"], Exit::Database, &["is unreachable"]),
    (&["run"], Exit::Database, &["is unreachable"]),
];

#[tokio::test]
async fn bad_input_ends_with_one_sentence() {
    for (args, exit, parts) in BAD_INPUT {
        let (ended, out, err) = ran(args, WHOLE).await;
        assert_eq!((ended, out.as_str()), (*exit, ""), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && !err.contains("c4n4ry"), "{args:?}: {err}");
        for part in *parts {
            assert!(err.contains(part), "{args:?} {part:?}: {err}");
        }
    }
}

/// What is written into the file, the exit of `check`, and parts of what is said. `run` ends with 2, whatever `check` does.
const BAD_FILES: &[(&str, Exit, &str)] = &[
    ("[[routes]]\nevent_type = \"A\"", Exit::Usage, "`to` is missing in the [[routes]] of"),
    ("[[routes]]\nto = \"\"", Exit::Usage, "`routes.to` in … expected non-empty string, found"),
    (
        "[[routes]]\nto = \"kafka\"\nevent_types = \"A\"",
        Exit::Usage,
        "unknown key `routes.event_types`",
    ),
    (
        "[[routes]]\nto = \"kafka\"\n[[routes]]\nto = \"kafka\"\nevent_type = \"\"",
        Exit::Usage,
        "`routes.event_type` in … expected non-empty string, found",
    ),
    (
        "[[routes]]\nto = \"kafka\"\naggregate_type = \"\"",
        Exit::Usage,
        "`routes.aggregate_type` in … expected non-empty string, found",
    ),
    (
        "[[routes]]\nto = \"shpo\"",
        Exit::Findings,
        "[[routes]]: unknown destination `shpo`; choose one of `kafka`",
    ),
    #[cfg(feature = "webhook")]
    (
        "[[webhooks]]\nname = \"kafka\"\nurl = \"http://localhost\"",
        Exit::Findings,
        "a destination is named \"kafka\"; names are unique",
    ),
    #[cfg(feature = "webhook")]
    (
        "[[webhooks]]\nname = \"a\"\nurl = \"http://localhost\"\n[[webhooks]]\nname = \"a\"\nurl = \"http://localhost\"",
        Exit::Usage,
        "two [[webhooks]] have the `name` \"a\"; rename one",
    ),
    #[cfg(feature = "webhook")]
    (
        "[[webhooks]]\nname = \"a\"\nurl = \"http://localhost\"\nsecret_files = [\"/nowhere/secret\"]",
        Exit::Findings,
        "webhook a: `webhooks.secret_files`: cannot read /nowhere/secret",
    ),
    #[cfg(not(feature = "webhook"))]
    (
        "[[webhooks]]\nname = \"a\"\nurl = \"http://localhost\"",
        Exit::Usage,
        "`[[webhooks]]` needs the HTTP destination, which this build does not include",
    ),
];

fn file_of(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test]
async fn a_file_that_cannot_work_is_refused_by_check_and_run() {
    for (text, exit, part) in BAD_FILES {
        let file = file_of(text);
        let path = file.path().to_str().unwrap();
        for (verb, exit) in [("check", *exit), ("run", Exit::Usage)] {
            let (ended, out, err) = ran(&[verb, "--config", path], WHOLE).await;
            assert_eq!(ended, exit, "{verb} {text}: {out}{err}");
            let has = |line: &str| part.split(" … ").all(|part| line.contains(part));
            // A report goes to standard output, a refusal to standard error.
            let shown = if ended == Exit::Findings { out } else { err };
            let told = shown.lines().any(|line| line.starts_with("error") && has(line));
            assert!(told, "{verb} {text}: {shown}");
        }
    }
}

/// By `check`, and in the log at each start.
#[test]
fn routes_and_destinations_that_get_nothing_are_doubted() {
    let text = "[[routes]]\nevent_type = \"A\"\nto = \"shop\"\n[[routes]]\nto = \"kafka\"\n\
                [[routes]]\nevent_type = \"B\"\nto = \"kafka\"\n";
    let behind = "[[routes]]: no event reaches the routes after route 2, which matches all; move \
                  it to the end";
    let unused = "no route leads to the destination `crm`; add one to [[routes]]";
    let file = file_of(text);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let env = WHOLE.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config = Config::load(Some(file.path()), env, &Overrides::new()).unwrap();
    let destination = |name| {
        Relay::builder(config.clone()).destination("shop", Willing).destination(name, Willing)
    };
    let mut built = None;
    let lines = capture_log(|| built = Some(runtime.block_on(destination("crm").build())));
    assert!(matches!(built, Some(Err(BuildError::Database(_)))), "{built:?}");
    let told: Vec<&String> = lines
        .iter()
        .flat_map(|(_, fields)| fields)
        .filter(|(name, _)| name == "message")
        .map(|(_, text)| text)
        .collect();
    for doubt in [behind, unused] {
        assert_eq!(told.iter().filter(|text| **text == doubt).count(), 1, "{doubt}: {told:?}");
    }
    let error = runtime.block_on(destination("shop").build()).unwrap_err().to_string();
    assert!(error.starts_with("a destination is named \"shop\"; names are unique"), "{error}");

    let file = file_of(&text.replace("shop", "kafka"));
    let args = ["check", "--config", file.path().to_str().unwrap()];
    let (exit, out, _) = runtime.block_on(ran(&args, WHOLE));
    assert_eq!(exit, Exit::Findings, "the database is away");
    assert!(out.contains(&format!("warning  destinations  {behind}")), "{out}");
    #[cfg(feature = "webhook")]
    {
        let text =
            "[[routes]]\nto = \"kafka\"\n[[webhooks]]\nname = \"crm\"\nurl = \"http://localhost\"";
        let file = file_of(text);
        let args = ["check", "--config", file.path().to_str().unwrap()];
        let (_, out, _) = runtime.block_on(ran(&args, WHOLE));
        assert!(out.contains(unused), "{out}");
    }
}

struct Willing;

#[async_trait::async_trait]
impl Sink for Willing {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        batch.iter().map(|_| Outcome::Delivered).collect()
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_row_that_is_not_there_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("database.url=sqlite:{}", folder.path().join("d").display());
    let (exit, _, err) = ran(&["migrate", "--set", &url], WHOLE).await;
    assert_eq!(exit, Exit::Done, "{err}");
    for seq in ["99", "0", "9223372036854775807"] {
        let (exit, out, err) = ran(&["failed", "show", seq, "--set", &url], WHOLE).await;
        assert_eq!((exit, out.as_str()), (Exit::Usage, ""), "{err}");
        assert!(
            err.starts_with(&format!("error: the outbox has no row {seq}: it was deleted")),
            "{err}"
        );
    }
    let (exit, out, err) = ran(&["failed", "list", "--max", "0", "--set", &url], WHOLE).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""), "{out}");
}

#[tokio::test]
async fn each_missing_key_is_an_error_of_its_own() {
    let (exit, _, err) = ran(&["status"], &[]).await;
    assert_eq!(exit, Exit::Usage);
    assert_eq!(err.lines().count(), 3, "{err}");
    assert!(err.contains("OUTBOX_KAFKA__TOPIC in the environment"), "{err}");
}

#[tokio::test]
async fn check_reports_everything_at_once_on_one_stream() {
    let args = ["check", "--set", "kafka.fencing=false"];
    let (exit, out, err) = ran(&args, WHOLE).await;
    assert_eq!((exit, err.as_str()), (Exit::Findings, ""), "{out}");
    assert!(out.starts_with("cannot start: 2 errors, 1 warning\n\nLEVEL"), "{out}");
    for part in [
        "error    database       database 127.0.0.1:1",
        "error    kafka          Kafka at 127.0.0.1:1",
        "warning  configuration  `kafka.fencing` is false",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (exit, out, err) = ran(&[&args[..], &["--json"]].concat(), WHOLE).await;
    assert_eq!((exit, err.as_str()), (Exit::Findings, ""), "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["startable"], false);
    let findings = report["findings"].as_array().unwrap().iter();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = findings.map(|it| format!("{} of {}", text(it, "level"), text(it, "about")));
    let expected = ["error of database", "error of kafka", "warning of configuration"];
    assert_eq!(findings.collect::<Vec<_>>(), expected, "{out}");
}

#[tokio::test]
async fn the_statements_of_the_tables_are_printed() {
    let (exit, out, err) = ran(&["migrate", "--print"], WHOLE).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    assert!(out.contains("CREATE TABLE outbox_relays"), "{out}");
    assert!(!out.contains("CREATE TRIGGER outbox_events_notify"), "it is asked for: {out}");
}

/// The trigger's own statements, alone: a tool of one's own runs them whenever it likes.
#[tokio::test]
async fn the_statements_of_the_trigger_are_printed() {
    for (state, begins) in [("on", "CREATE OR REPLACE FUNCTION"), ("off", "DROP TRIGGER IF EXISTS")]
    {
        let (exit, out, err) = ran(&["migrate", "--print", "--notify-trigger", state], WHOLE).await;
        assert_eq!((exit, err.as_str()), (Exit::Done, ""));
        assert!(out.starts_with(begins) && !out.contains("CREATE TABLE"), "{out}");
    }
}

#[test]
fn status_says_why_nothing_moves() {
    let mut overview = Overview { waiting: 3, oldest_seconds: Some(90), ..Overview::default() };
    assert!(table(&overview).contains("stalled           no_relay: no relay is running"));
    overview.holder = Some("host/1".into());
    overview.lease_left_seconds = Some(0);
    assert!(table(&overview).contains("stalled           relay_silent: host/1 is silent"));
    overview.lease_left_seconds = Some(9);
    overview.standstill = Some("Kafka: all brokers are down".into());
    assert!(table(&overview).contains("stalled           Kafka: all brokers are down"));
    overview.waiting = 0;
    assert!(table(&overview).ends_with("stalled"), "{}", table(&overview));
    overview.standstill = Some("sequence_behind: 4 comes next".into());
    assert!(table(&overview).ends_with("sequence_behind: 4 comes next"), "{}", table(&overview));
}

#[test]
fn a_destination_that_is_down_is_named_by_each_command() {
    let outage = ReportedOutage {
        destination: "shop (http://127.0.0.1:1)".into(),
        seconds: 75,
        error: "answered 500\u{1b}".into(),
    };
    let mut overview = Overview { waiting: 28, ..Overview::default() };
    overview.holder = Some("host/1".into());
    overview.lease_left_seconds = Some(9);
    overview.destination_outages = vec![outage.clone()];
    let line = "destination down  shop (http://127.0.0.1:1) for 75 s: answered 500\u{fffd}\n";
    assert!(table(&overview).contains(line), "{}", table(&overview));
    overview.waiting_for_destination = 3;
    overview.destinations_out = vec!["shop (http://127.0.0.1:1)".into()];
    let rows = "500\u{fffd}; rows waiting for it: 3 (shop (http://127.0.0.1:1))\n";
    assert!(table(&overview).contains(rows), "{}", table(&overview));
    assert_eq!(
        listed(&[], std::slice::from_ref(&outage), &Choice::default(), false),
        "no row is parked or in retry\ndestination shop (http://127.0.0.1:1) has been down for 75 s; its rows are sent once \
         it recovers: answered 500\u{fffd}"
    );
    let json = listed(&[], &[outage], &Choice::default(), true);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"], serde_json::json!([]));
    let outage = &json["destination_outages"][0];
    assert_eq!(outage["destination"], "shop (http://127.0.0.1:1)");
    assert_eq!((&outage["seconds"], &outage["error"]), (&75.into(), &"answered 500\u{1b}".into()));
}

/// A parked row with two rows behind it.
pub(super) fn parked_row() -> FailedRow {
    FailedRow {
        seq: 7,
        event_id: "e-1".into(),
        event_type: "OrderPaid".into(),
        aggregate: "Order/1".into(),
        topic: None,
        failed_seconds: 3,
        attempts: 0,
        retry_seconds: None,
        waits_for: None,
        error: "topic x does not exist".into(),
        behind: 2,
    }
}

#[test]
fn failed_rows_are_listed_for_people_and_machines() {
    let row = parked_row();
    let again = FailedRow { attempts: 2, retry_seconds: Some(12), ..row.clone() };
    let topic = FailedRow { waits_for: Some("x".into()), ..row.clone() };
    let (rows, all) = ([row, again, topic], Choice::default());
    let expected = "\
SEQ  AGGREGATE  TYPE       EVENT  STATE                      SECONDS AGO  BLOCKED  ERROR
7    Order/1    OrderPaid  e-1    parked                     3            2        topic x does not exist
7    Order/1    OrderPaid  e-1    retry in 12 s (attempt 3)  3            2        topic x does not exist
7    Order/1    OrderPaid  e-1    waits for its topic        3            2        topic x does not exist";
    assert_eq!(listed(&rows, &[], &all, false), expected);
    let json: serde_json::Value = serde_json::from_str(&listed(&rows, &[], &all, true)).unwrap();
    assert_eq!(json["rows"][0]["behind"], 2);
    assert_eq!(listed(&[], &[], &all, false), "no row is parked or in retry");
}

#[test]
fn a_choice_that_matches_nothing_does_not_say_that_no_row_is_set_aside() {
    let seq = Choice { seq: Some(4), ..Choice::default() };
    let aggregate = Choice { aggregate: Some(("Order".into(), "1".into())), ..Choice::default() };
    let error = Choice { error: Some("may not write".into()), ..Choice::default() };
    for choice in [seq, aggregate, error] {
        let said = listed(&[], &[], &choice, false);
        assert_eq!(said, "no row that is parked or in retry matches", "{choice:?}");
        assert!(listed(&[], &[], &choice, true).contains("\"rows\": []"));
    }
}

#[test]
fn one_row_is_spoken_of_as_one() {
    let steps = |rows, claimed| Steps { rows, claimed };
    assert_eq!(
        describe_retry(steps(1, 0)),
        "1 row will be sent again, in the order of its aggregate"
    );
    assert_eq!(
        describe_retry(steps(0, 0)),
        "0 rows will be sent again, in the order of their aggregates"
    );
    assert_eq!(
        describe_discard(steps(1, 0)),
        "1 row is discarded; rows blocked behind it are sent"
    );
    assert_eq!(
        describe_discard(steps(2, 0)),
        "2 rows are discarded; rows blocked behind them are sent"
    );
    let claimed = "\n1 row is being delivered right now and was left alone; try again";
    assert!(describe_retry(steps(0, 1)).ends_with(claimed), "{}", describe_retry(steps(0, 1)));
    let mut overview = Overview { failed: 1, held: 1, ..Overview::default() };
    let one = doubt(&overview).unwrap();
    assert!(one.starts_with("1 row is parked, and 1 waits behind it; check"), "{one}");
    assert!(one.ends_with("then retry or discard it"), "{one}");
    (overview.failed, overview.held) = (2, 3);
    let two = doubt(&overview).unwrap();
    assert!(two.starts_with("2 rows are parked, and 3 wait behind them; check"), "{two}");
    (overview.failed, overview.waiting_for_topic) = (0, 1);
    overview.missing_topics = vec!["news".into()];
    let one = "1 row waits for a topic that is missing or forbidden (news); create it, or grant WRITE on it, and the row is \
               sent automatically";
    assert_eq!(doubt(&overview).unwrap(), one);
    overview.waiting_for_topic = 5;
    overview.missing_topics.push("olds".into());
    let two = "5 rows wait for topics that are missing or forbidden (news, olds); create them, or grant WRITE on them, and the \
               rows are sent automatically";
    assert_eq!(doubt(&overview).unwrap(), two);
    overview.waiting_for_topic = 0;
    assert_eq!(doubt(&overview), None);
}

#[test]
fn the_document_has_every_exit_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/relay-reference.md");
    let page = std::fs::read_to_string(path).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/mod.rs");
    let module = std::fs::read_to_string(path).unwrap();
    for (exit, means) in EXITS {
        assert!(page.contains(&format!("| {} | {means} |", exit.code())), "{means}");
        assert!(module.contains(&format!("//! | {} | {means} |", exit.code())), "{means}");
    }
}
