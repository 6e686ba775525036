//! Events that end the process that runs them: under a supervisor that starts it again at once they are found and
//! parked, and nothing else is. And events that a person has parked before they are run.

use std::{process::Command, sync::Mutex, time::Duration};

use serde_json::json;
use service_kit::Random;
use tests::{Record, SOON, Stage, Supervised, Worker, counted, eventually};

use super::commands::{ran, worker};
use super::parked_support::{acts, said, seq, told, typed};

/// A process that dies is gone for the group only after its session.
const LONG: Duration = Duration::from_mins(2);
/// The first process that ends with an event knows nothing of it, the second has written it down.
const DEATHS_MAX: usize = 2;
/// Aggregates, and events of each.
const AGGREGATES: i64 = 10;
const EACH: i64 = 10;

/// An event whose handler does something besides its effect.
fn acting(aggregate: &str, n: i64, act: &str) -> Record {
    let payload = json!({"n": n, "act": act}).to_string();
    Record::event(&format!("{aggregate}-{n}"), "Counted", aggregate, &payload)
}

/// Events that are well, those with these numbers of each aggregate.
async fn well(stage: &Stage, from: i64, to: i64) {
    let each = |n| (0..AGGREGATES).map(move |of| counted(&of.to_string(), n));
    stage.send(&(from..=to).flat_map(each).collect::<Vec<_>>()).await;
}

/// A process that is started again at once, under a name that gives it its partitions back.
fn supervised(stage: &Stage, name: &str) -> Supervised {
    let mut command = worker(stage);
    command.env("INBOX_CONSUMER__INSTANCE_ID", name);
    again_and_again(command)
}

fn again_and_again(mut command: Command) -> Supervised {
    command.arg("run");
    let command = Mutex::new(command);
    Supervised::start(move || Worker::spawn(&mut command.lock().unwrap()))
}

/// Every event that is well has its effect once, and nothing is parked but what is named.
async fn settled(stage: &Stage, parked: &[(&str, &str)]) {
    let effects = "SELECT count(*) FROM effects";
    let different = "SELECT count(DISTINCT (aggregate, n)) FROM effects";
    assert_eq!(stage.schema.number(effects).await, AGGREGATES * EACH);
    assert_eq!(stage.schema.number(different).await, AGGREGATES * EACH);
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT split_part(aggregate, '/', 2), reason FROM inbox_parked ORDER BY parked_seq",
    )
    .fetch_all(stage.schema.pool())
    .await
    .unwrap();
    let rows: Vec<(&str, &str)> =
        rows.iter().map(|(of, why)| (of.as_str(), why.as_str())).collect();
    assert_eq!(rows, parked);
}

/// The event ends whatever runs it; it is in the midst of others that are well.
async fn poisoned(act: &str, processes: &[&str]) -> Stage {
    poisoned_by(acting("poison", 1, act), processes).await
}

async fn poisoned_by(poison: Record, processes: &[&str]) -> Stage {
    let stage = Stage::set("crashed", 2).await;
    let running: Vec<_> = processes.iter().map(|name| supervised(&stage, name)).collect();
    well(&stage, 1, EACH / 2).await;
    let half = async || stage.effects().await == AGGREGATES * EACH / 2;
    eventually(LONG, "the effects before", half).await;

    stage.send(&[poison, counted("poison", 2)]).await;
    well(&stage, EACH / 2 + 1, EACH).await;
    eventually(LONG, "it is parked", async || stage.parked("crashed").await == 1).await;
    let all = async || stage.effects().await >= AGGREGATES * EACH;
    eventually(LONG, "every effect", all).await;
    eventually(SOON, "what follows it", async || stage.parked("follower").await == 1).await;
    let deaths: usize = running.iter().map(|one| one.ends().len()).sum();
    assert!(deaths <= DEATHS_MAX, "{deaths} processes have ended with it");
    let shown = told(&stage, &["parked", "list", "--json"]).await;
    let text = shown.to_string();
    assert!(text.contains("the handler kills the process on this event"), "{text}");
    for one in running {
        assert!(one.end().await);
    }
    settled(&stage, &[("poison", "crashed"), ("poison", "follower")]).await;
    stage
}

#[tokio::test]
async fn an_event_that_aborts_the_process_is_parked_alone() {
    poisoned("abort", &["one"]).await;
}

#[tokio::test]
async fn an_event_that_overflows_the_stack_is_parked_alone() {
    poisoned("overflow", &["one"]).await;
}

/// As a schema would whose parser overflows the stack: it is read before the transaction begins.
#[tokio::test]
async fn an_event_whose_codec_ends_the_process_before_the_transaction_is_parked_alone() {
    let payload = json!({"n": 1, "act": "abort"}).to_string();
    poisoned_by(Record::event("poison-1", "Fetched", "poison", &payload), &["one"]).await;
}

/// The partitions of the one that has died go to the other one, or come back: it is found all the same.
#[tokio::test]
async fn an_event_that_ends_two_processes_in_turns_is_parked_alone() {
    poisoned("abort", &["one", "two"]).await;
}

/// Where a trial shows nothing, the count of processes does: only of those that ran nothing else, or others that are
/// slow would be parked with it.
#[tokio::test]
async fn what_ends_the_process_only_for_good_is_parked_alone() {
    let stage = Stage::set("crashed", 2).await;
    let slow = |aggregate: &str| {
        let payload = json!({"n": 1, "sleep_ms": 2_000}).to_string();
        Record::event(&format!("{aggregate}-1"), "Counted", aggregate, &payload)
    };
    stage.send(&[slow("slow"), acting("poison", 1, "abort_for_good"), slow("slower")]).await;
    let running = supervised(&stage, "one");
    eventually(LONG, "it is parked", async || stage.parked("crashed").await == 1).await;
    eventually(LONG, "both effects", async || stage.effects().await == 2).await;
    assert!(running.end().await);
    assert_eq!((stage.of("slow").await, stage.of("slower").await), (vec![1], vec![1]));
    assert_eq!((stage.parked("").await, stage.of("poison").await), (1, vec![]));
}

/// A parked event that ends the process when it is released is found as one that arrives is, and nothing that runs
/// beside it is blamed.
#[tokio::test]
async fn a_release_that_ends_the_process_is_parked_alone() {
    let stage = Stage::set("crashed", 1).await;
    stage.schema.run("CREATE TABLE broken (aggregate text, n bigint)").await;
    stage.schema.run("INSERT INTO broken VALUES ('poison', 1)").await;
    let mut command = worker(&stage);
    command.env("INBOX_CONSUMER__INSTANCE_ID", "one").env("INBOX_RETRY__ATTEMPTS_MAX", "1");
    command.env("INBOX_PARK__RELEASES_MAX", "0");
    let running = again_and_again(command);
    stage.send(&[acting("poison", 1, "abort_mended"), counted("poison", 2)]).await;
    eventually(LONG, "it is parked", async || stage.parked("exhausted").await == 1).await;
    stage.schema.run("DELETE FROM broken").await;
    well(&stage, 1, EACH).await;
    said(&stage, &["parked", "release", &seq(&stage, 0).await]).await;
    eventually(LONG, "it is found", async || stage.parked("crashed").await == 1).await;
    let all = async || stage.effects().await >= AGGREGATES * EACH;
    eventually(LONG, "every effect", all).await;
    let deaths = running.ends().len();
    assert!(deaths <= DEATHS_MAX, "{deaths} processes have ended with it");
    settled(&stage, &[("poison", "crashed"), ("poison", "follower")]).await;

    // Given up, it is not run, and what follows it is.
    let args = ["parked", "discard", &seq(&stage, 0).await, "--why", "wrong"];
    said(&stage, &args).await;
    eventually(LONG, "what follows it", async || stage.of("poison").await == [2]).await;
    assert!(running.end().await);
    assert_eq!(stage.parked("").await, 0);
}

/// Events that waited for versions are released together, and the one with the highest version may be the head of their
/// queue. That a process ends with it there says nothing against it: its turn is behind those of lower versions.
#[tokio::test]
async fn a_head_that_is_too_early_is_not_to_blame() {
    let stage = Stage::set("crashed", 1).await;
    let mut command = worker(&stage);
    command.env("INBOX_CONSUMER__INSTANCE_ID", "one").env("GAP", "");
    let running = again_and_again(command);
    // So that the process knows how long a handler takes, and releases several at once.
    well(&stage, 1, EACH).await;
    let all = async || stage.effects().await == AGGREGATES * EACH;
    eventually(LONG, "the effects before", all).await;
    let versioned = |event: Record, version: &str| event.header("aggregate_version", version);
    let late = [versioned(acting("poison", 3, "abort"), "3"), versioned(counted("poison", 2), "2")];
    stage.send(&late).await;
    eventually(LONG, "both wait", async || stage.parked("gap").await == 2).await;
    stage.send(&[versioned(counted("poison", 1), "1")]).await;
    eventually(LONG, "it is found", async || stage.parked("crashed").await == 1).await;
    assert_eq!((stage.of("poison").await, stage.parked("").await), (vec![1, 2], 1));
    assert!(running.end().await);
}

/// It is the process that is watched, not the database.
#[tokio::test]
async fn an_event_that_ends_the_process_is_parked_on_sqlite() {
    let stage = Stage::set("crashed", 1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("effects.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("CREATE TABLE effects (aggregate TEXT, n INTEGER, event_id TEXT, pid INTEGER)")
        .execute(&pool)
        .await
        .unwrap();
    let on_sqlite = || {
        let mut command = worker(&stage);
        command.env("INBOX_DATABASE__URL", format!("sqlite:{}", file.display())).env("SQLITE", "1");
        command.env("INBOX_CONSUMER__INSTANCE_ID", "one");
        command
    };
    let (code, _, err) = ran(on_sqlite(), "migrate").await;
    assert_eq!(code, Some(0), "{err}");
    let number = async |sql: &'static str| -> i64 {
        sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap()
    };
    well(&stage, 1, EACH / 2).await;
    stage.send(&[acting("poison", 1, "abort")]).await;
    well(&stage, EACH / 2 + 1, EACH).await;
    let running = again_and_again(on_sqlite());
    let all = async || number("SELECT count(*) FROM effects").await >= AGGREGATES * EACH;
    eventually(LONG, "every effect", all).await;
    let parked = "SELECT count(*) FROM inbox_parked WHERE reason = 'crashed'";
    eventually(LONG, "it is parked", async || number(parked).await == 1).await;
    let deaths = running.ends().len();
    assert!(deaths <= DEATHS_MAX, "{deaths} processes have ended with it");
    assert!(running.end().await);
    assert_eq!(number("SELECT count(*) FROM inbox_parked").await, 1);
    assert_eq!(number("SELECT count(*) FROM effects").await, AGGREGATES * EACH);
    let different = "SELECT count(*) FROM (SELECT DISTINCT aggregate, n FROM effects)";
    assert_eq!(number(different).await, AGGREGATES * EACH);
}

/// Who kills at random kills events that are well, too: none of them is to blame.
#[tokio::test]
async fn kills_at_random_park_nothing() {
    const KILLS: u64 = 20;
    let stage = Stage::set("killed", 2).await;
    let running = supervised(&stage, "one");
    let mut random = Random::new(0x5EED);
    let taken = async || running.log().contains("\"signal\":\"taken_over\"");
    for round in 0..KILLS {
        if round < EACH.unsigned_abs() {
            let n = i64::try_from(round).unwrap() + 1;
            well(&stage, n, n).await;
        }
        eventually(SOON, "a process has partitions", taken).await;
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
        let before = running.ends().len();
        running.kill();
        eventually(SOON, "another one runs", async || running.ends().len() > before).await;
    }
    let all = async || stage.effects().await >= AGGREGATES * EACH;
    eventually(LONG, "every effect", all).await;
    // The one before may have done all of it: a process that has just begun to start does not hear SIGTERM.
    eventually(SOON, "the last process has partitions", taken).await;
    assert!(running.end().await);
    settled(&stage, &[]).await;
}

/// What is written down costs transactions: only after an owner that ended without a word.
#[tokio::test]
async fn after_a_clean_stop_nothing_is_written_down() {
    let stage = Stage::set("clean", 2).await;
    stage
        .schema
        .run(
            "CREATE TABLE touched (at timestamptz DEFAULT now()); \
             CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN INSERT INTO touched DEFAULT VALUES; RETURN NULL; END'; \
             CREATE TRIGGER touch AFTER INSERT OR UPDATE OR DELETE ON inbox_suspects \
                 FOR EACH STATEMENT EXECUTE FUNCTION touch()",
        )
        .await;
    let touched = "SELECT count(*) FROM touched";
    for round in 0..2 {
        let mut running = Worker::spawn(worker(&stage).arg("run"));
        well(&stage, round * EACH / 2 + 1, (round + 1) * EACH / 2).await;
        let due = (round + 1) * AGGREGATES * EACH / 2;
        eventually(SOON, "the effects", async || stage.effects().await == due).await;
        running.terminate();
        assert!(running.ended(SOON).await.success(), "{}", running.log());
    }
    assert_eq!(stage.schema.number(touched).await, 0);
    settled(&stage, &[]).await;

    // The same after one that was killed: now it is written down, and forgotten.
    let mut running = Worker::spawn(worker(&stage).arg("run"));
    let owned = "SELECT count(*) FROM inbox_partitions WHERE owner_incarnation IS NOT NULL";
    eventually(SOON, "it owns both", async || stage.schema.number(owned).await == 2).await;
    running.kill();
    let mut running = Worker::spawn(worker(&stage).arg("run"));
    stage.count("last", 1, 1).await;
    eventually(SOON, "the last effect", async || stage.of("last").await == [1]).await;
    running.terminate();
    assert!(running.ended(SOON).await.success(), "{}", running.log());
    assert!(stage.schema.number(touched).await > 0);
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_suspects").await, 0);
}

/// A person need not wait until an event has failed often enough, or has blocked long enough.
#[tokio::test]
async fn an_event_that_fails_or_blocks_is_parked_by_hand() {
    for act in ["fail", "block"] {
        let stage = Stage::set("by_hand", 1).await;
        let mut command = worker(&stage);
        // It fails for so long that nothing else parks it here.
        command.env("INBOX_RETRY__ATTEMPTS_MAX", "100").env("INBOX_RETRY__DELAY_MAX", "1s");
        let mut running = Worker::spawn(command.env("TOKIO_WORKER_THREADS", "4").arg("run"));
        stage.send(&[acting("bad", 1, act), counted("bad", 2), counted("well", 1)]).await;
        eventually(SOON, "the others", async || stage.of("well").await == [1]).await;
        let out =
            said(&stage, &[&park(&stage, "0", "0")[..], &["--why", "it hangs"]].concat()).await;
        assert!(out.contains("will be parked instead of run when it is next"), "{out}");
        // What a handler that blocks has claimed is free when the database ends its session, which is idle.
        eventually(LONG, "it is parked", async || stage.parked("by_hand").await == 1).await;
        eventually(SOON, "what follows it", async || stage.parked("follower").await == 1).await;
        let shown = said(&stage, &["parked", "show", &seq(&stage, 0).await]).await;
        assert!(shown.contains("anna@desk: it hangs"), "{shown}");
        assert_eq!(acts(&stage, "park").await, 1);
        // Its lane goes on.
        stage.send(&[counted("well", 2)]).await;
        eventually(SOON, "the next", async || stage.of("well").await == [1, 2]).await;
        running.terminate();
        running.ended(SOON).await;
        assert_eq!(stage.of("bad").await, [] as [i64; 0]);
    }
}

/// Once whoever parked it has seen to its handler, it is run, and then what follows it.
#[tokio::test]
async fn what_was_parked_by_hand_is_released() {
    let stage = Stage::set("by_hand", 1).await;
    stage.schema.run("CREATE TABLE broken (aggregate text, n bigint)").await;
    stage.schema.run("INSERT INTO broken VALUES ('bad', 1)").await;
    let mut command = worker(&stage);
    command.env("INBOX_RETRY__ATTEMPTS_MAX", "100").env("INBOX_RETRY__DELAY_MAX", "1s");
    let mut running = Worker::spawn(command.arg("run"));
    stage.send(&[acting("bad", 1, "mendable"), counted("bad", 2)]).await;
    running.printed(SOON, "\"signal\":\"handler_failed\"").await;
    said(&stage, &[&park(&stage, "0", "0")[..], &["--why", "the flat rate"]].concat()).await;
    eventually(SOON, "it is parked", async || stage.parked("by_hand").await == 1).await;
    stage.schema.run("DELETE FROM broken").await;
    said(&stage, &["parked", "release", &seq(&stage, 0).await]).await;
    eventually(SOON, "both effects", async || stage.of("bad").await == [1, 2]).await;
    running.terminate();
    assert!(running.ended(SOON).await.success(), "{}", running.log());
    assert_eq!(stage.parked("").await, 0);
}

/// What cannot be parked is told in one sentence, and nothing is changed.
#[tokio::test]
async fn what_cannot_be_parked_by_hand_is_told() {
    let stage = Stage::set("by_hand", 1).await;
    stage.count("a", 1, 3).await;
    let mut running = Worker::spawn(worker(&stage).arg("run"));
    let read = "SELECT count(*) FROM inbox_partitions WHERE watermark = 3";
    eventually(SOON, "all is settled", async || stage.schema.number(read).await == 1).await;
    running.terminate();
    assert!(running.ended(SOON).await.success(), "{}", running.log());
    let epoch = stage.schema.number("SELECT epoch FROM inbox_partitions").await;
    for (partition, offset, why, code, words) in [
        ("7", "0", "it hangs", 6, "has no partition"),
        ("0", "2", "it hangs", 6, "is settled, as is everything below 3"),
        ("0", "3", "it hangs", 6, "ends at 3: there is no event at offset 3 yet"),
        ("0", "3", " ", 2, "--why is empty"),
        ("0", "-1", "it hangs", 2, "unexpected argument '-1'"),
        ("0", "all", "it hangs", 2, "invalid"),
    ] {
        let args = [&park(&stage, partition, offset)[..], &["--why", why]].concat();
        let (exit, out, err) = typed(&stage, &args).await;
        assert_eq!((exit, out.as_str()), (Some(code), ""), "{err}");
        assert!(err.starts_with("error: ") && err.contains(words), "{err}");
    }
    let args =
        ["park", "--topic", "nowhere", "--partition", "0", "--offset", "0", "--why", "it hangs"];
    let (exit, _, err) = typed(&stage, &args).await;
    assert_eq!(exit, Some(6), "{err}");
    assert!(err.contains("has no partition nowhere/0"), "{err}");
    assert_eq!(acts(&stage, "park").await, 0);
    assert_eq!(stage.schema.number("SELECT epoch FROM inbox_partitions").await, epoch);
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_suspects").await, 0);
}

fn park<'a>(stage: &'a Stage, partition: &'a str, offset: &'a str) -> [&'a str; 8] {
    let topic = stage.topic.name();
    ["park", "--topic", topic, "--partition", partition, "--offset", offset, "--as=anna@desk"]
}
