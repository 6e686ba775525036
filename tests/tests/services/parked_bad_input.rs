//! Bad input of operators' commands: each ends with one sentence that says what is wrong and what to do,
//! and an exit code; nothing is changed.

use tests::{
    SOON, Services, Stage,
    deploy::{Deploy, charged},
    eventually,
};

use super::commands::worker;
use super::parked_support::{finished, parked, typed};

/// Arguments, exit code, and parts of what is said on standard error.
type Case<'c> = (&'c [&'c str], i32, &'c [&'c str]);

async fn refused(stage: &Stage, cases: &[Case<'_>]) {
    for (args, code, parts) in cases {
        let (ended, out, err) = typed(stage, args).await;
        assert_eq!(ended, Some(*code), "{args:?}: {out}{err}");
        assert_eq!(out, "", "{args:?}: {err}");
        // Help alone is no complaint, nor is what `--yes` would do.
        let complains = args.len() > 1 && !err.starts_with("dry run: ");
        assert_eq!(err.starts_with("error: "), complains, "{args:?}: {err}");
        for part in *parts {
            assert!(err.contains(part), "{args:?}: {part:?} is missing: {err}");
        }
    }
}

/// What cannot be meant is refused before any server is asked.
#[tokio::test]
async fn arguments_that_say_nothing_or_too_much_are_refused() {
    let stage = Stage::set("usage", 1).await;
    let cases: [Case<'_>; 20] = [
        (&["parked"], 2, &["Usage:", "list"]),
        (&["parked", "lsit"], 2, &["'lsit'", "'list'"]),
        (&["parked", "show"], 2, &["<SEQ>"]),
        (&["parked", "show", "x"], 2, &["'x'", "invalid digit"]),
        (&["parked", "list", "--limit", "0"], 2, &["'0'", "1..=100000"]),
        (&["parked", "list", "--due", "--waiting"], 2, &["cannot be used with"]),
        (&["parked", "list", "--newest", "--oldest"], 2, &["cannot be used with"]),
        (&["parked", "list", "--partition", "x"], 2, &["--partition", "'x'"]),
        (
            &["parked", "list", "--reason", "lazy"],
            2,
            &["unknown reason", "exhausted", "unknown_type"],
        ),
        (&["parked", "audit", "--what", "steal"], 2, &["'steal'", "release", "retire"]),
        (&["parked", "release"], 2, &["choose events", "--type", "--all"]),
        (&["parked", "release", "1", "--all"], 2, &["mutually exclusive", "use one of them"]),
        (&["parked", "release", "1", "--type", "X"], 2, &["mutually exclusive"]),
        (&["parked", "release", "--all", "--type", "X"], 2, &["mutually exclusive"]),
        (&["parked", "release", "1", "--wait", "5"], 2, &["not a duration", "30s"]),
        (&["parked", "release", "1", "--as", " "], 2, &["--as is empty", "give your name"]),
        (&["parked", "discard", "1"], 2, &["a discard needs --why TEXT"]),
        (&["parked", "discard", "1", "--why", "  "], 2, &["a discard needs --why TEXT"]),
        (&["skip", "--topic", "t", "--partition", "0", "--to", "-1", "--why", "x"], 2, &["--to"]),
        (&["retire", "--topic", "t", "--why", " "], 2, &["--why is empty"]),
    ];
    refused(&stage, &cases).await;
    let missing: [Case<'_>; 3] = [
        (&["skip", "--topic", "t", "--partition", "0", "--why", "x"], 2, &["--to <OFFSET>"]),
        (
            &["skip", "--topic", "t", "--partition", "0", "--to", "soon", "--why", "x"],
            2,
            &["`start`"],
        ),
        (&["retire", "--topic", "t"], 2, &["--why <TEXT>"]),
    ];
    refused(&stage, &missing).await;
    let (code, _, err) = finished(worker(&stage), &["parked", "release", "1", "--as", " "]).await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("--as is empty: give your name, the audit keeps it"), "{err}");
    // Without a word of who it is, it is the system's user, or the machine.
    let mut command = worker(&stage);
    command.env_remove("USER").env_remove("LOGNAME");
    let (code, _, err) = finished(command, &["parked", "release", "1"]).await;
    assert_eq!(code, Some(6), "{err}");
}

/// What is not there is named, with where to look.
#[tokio::test]
async fn what_is_not_there_is_named() {
    let stage = Stage::set("absent", 1).await;
    let cases: [Case<'_>; 3] = [
        (&["parked", "show", "987654321"], 6, &["has no parked event 987654321", "`parked list`"]),
        (&["parked", "release", "987654321"], 6, &["no parked event 987654321", "`parked audit`"]),
        (&["parked", "discard", "987654321", "--why", "x"], 6, &["no parked event 987654321"]),
    ];
    refused(&stage, &cases).await;
    for args in [["parked", "list", "--type", "Nobody"], ["parked", "release", "--all", "--yes"]] {
        let (code, out, err) = typed(&stage, &args).await;
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
        assert!(out.contains("no parked event matches"), "{out}");
    }
    let (code, out, _) = typed(&stage, &["parked", "audit"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "no audit entry matches\n"));
}

/// A bulk act says how many it would be, and does nothing without `--yes`.
#[tokio::test]
async fn a_bulk_act_asks_first() {
    let stage = Stage::set("bulk", 2).await;
    let records: Vec<_> = (0..7).map(|n| charged(&format!("a{}", n % 5), 1 + n / 5)).collect();
    stage.send(&records).await;
    let running = parked(&stage, &Deploy::bad(), 7).await;
    let cases: [Case<'_>; 2] = [
        (
            &["parked", "release", "--type", "Charged"],
            6,
            &["would release 5 parked events plus 2 queued behind, in", "add --yes"],
        ),
        (
            &["parked", "discard", "--all", "--why", "x"],
            6,
            &["would discard 7 parked events permanently", "nothing was changed", "add --yes"],
        ),
    ];
    refused(&stage, &cases).await;
    // What follows another event is released with its head, not by itself.
    let (code, out, err) = typed(&stage, &["parked", "release", "--reason", "follower"]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("2 events chosen behind earlier ones") && out.contains("nothing else"),
        "{out}"
    );
    let untouched = "SELECT count(*) FROM inbox_parked WHERE intent IS NULL";
    assert_eq!(stage.schema.number(untouched).await, 7);
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_audit").await, 0);
    running.stop().await;
}

/// Offsets and topics that make no sense for a skip or a retirement.
#[tokio::test]
async fn a_correction_that_makes_no_sense_is_refused() {
    let stage = Stage::set("senseless", 1).await;
    stage.count("a", 1, 5).await;
    let running = stage.start(Deploy::default().routes()).await;
    let watermark = "SELECT coalesce(max(watermark), 0) FROM inbox_partitions";
    eventually(SOON, "the watermark", async || stage.schema.number(watermark).await == 5).await;
    running.stop().await;
    let topic = stage.topic.name();
    let skip = |topic: &'static str, partition: &'static str, to: &'static str| {
        ["skip", "--topic", topic, "--partition", partition, "--to", to, "--why", "x", "--yes"]
    };
    let own = |partition, to| {
        ["skip", "--topic", topic, "--partition", partition, "--to", to, "--why", "x", "--yes"]
    };
    let cases: [Case<'_>; 7] = [
        (&own("0", "5"), 6, &["everything of", "below 5 is already settled", "only goes forward"]),
        (&own("0", "3"), 6, &["only goes forward"]),
        (&own("0", "6"), 6, &["ends at 5", "future records would be lost"]),
        (&own("4", "6"), 6, &["has no partition 4"]),
        (&skip("nowhere", "0", "6"), 6, &["topic nowhere does not exist in Kafka", "`retire`"]),
        (&["retire", "--topic", topic, "--why", "x", "--yes"], 6, &["nothing to retire"]),
        (
            &["retire", "--topic", "nowhere", "--why", "x", "--yes"],
            6,
            &["no rows of topic nowhere"],
        ),
    ];
    refused(&stage, &cases).await;
    assert_eq!(stage.schema.number(watermark).await, 5);
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_audit").await, 0);
    // A partition that this consumer has never had: it would begin there, on demand.
    stage.topic.grow(2).await;
    let unsure = own("1", "end");
    let told = ["has no row for", "would start at 0", "add --yes"];
    let never: [Case<'_>; 1] = [(&unsure[..9], 6, &told)];
    refused(&stage, &never).await;
    let rows = "SELECT count(*) FROM inbox_partitions";
    assert_eq!(stage.schema.number(rows).await, 1);
}

/// A wrong password, a dead database, tables that are not there, a dead broker: with their codes, and
/// never with the password.
#[tokio::test]
async fn servers_that_are_out_are_told_with_their_codes() {
    let stage = Stage::set("out", 1).await;
    let fresh = Services::from_env().schema().await;
    let password = stage.schema.url().replace("//postgres@", "//nobody:c4n4ry@");
    let dead = "postgres://u:c4n4ry@127.0.0.1:1/nowhere".to_owned();
    let databases = [
        (password, ["nobody", "inbox"]),
        (dead, ["127.0.0.1:1", "check its URL"]),
        (fresh.url(), ["tables", "`migrate`"]),
    ];
    let acts: [&[&str]; 6] = [
        &["parked", "list"],
        &["parked", "show", "1"],
        &["parked", "release", "1"],
        &["parked", "discard", "1", "--why", "x"],
        &["parked", "audit"],
        &["skip", "--topic", stage.topic.name(), "--partition", "0", "--to", "end", "--why", "x"],
    ];
    for (url, parts) in &databases {
        for args in acts {
            let mut command = worker(&stage);
            command.env("INBOX_DATABASE__URL", url).env("USER", "anna");
            let (code, out, err) = finished(command, args).await;
            assert_eq!((code, out.as_str()), (Some(3), ""), "{args:?}: {err}");
            assert!(!err.contains("c4n4ry"), "{err}");
            let told: Vec<&str> = err.lines().filter(|line| line.starts_with("error: ")).collect();
            assert_eq!(told.len(), 1, "{args:?}: {err}");
            assert!(parts.iter().any(|part| told[0].contains(part)), "{parts:?}: {err}");
        }
    }
    for args in [acts[5], &["retire", "--topic", stage.topic.name(), "--why", "x"]] {
        let mut command = worker(&stage);
        command.env("INBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1").env("USER", "anna");
        let (code, _, err) = finished(command, args).await;
        assert_eq!(code, Some(4), "{args:?}: {err}");
        assert!(err.contains("no broker of `kafka.bootstrap` (127.0.0.1:1)"), "{err}");
    }
}
