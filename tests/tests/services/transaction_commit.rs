//! COMMIT: what the offset may follow, answers that are lost, errors that come only then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Event, Handler, HandlerResult, Routes, Tx};
use serde_json::json;
use sqlx::{Acquire as _, Postgres};
use tests::{
    Count, Counter, Proxy, Record, SOON, Services, Stage, Trap, counted, effect, eventually,
};

use super::acting::{acting, told};

/// A1: one event cannot be handled yet, everything behind it is. Kafka's offset stays before it for as
/// long, and the next process gets it.
#[tokio::test]
async fn the_offset_never_passes_an_event_that_is_not_committed() {
    let mut stage = Stage::set("offset", 1).await;
    stage.config.retry.attempts_max = 100;
    stage.config.retry.delay_min = Duration::from_millis(300);
    stage.config.retry.delay_max = Duration::from_millis(300);
    let group = stage.config.group().to_owned();
    let good = |a: i64| told(&format!("good-{a}"), 1, json!({}));
    stage.send(&(0..10).map(good).collect::<Vec<_>>()).await;
    stage.send(&[told("bad", 1, json!({"sql": "SELECT 1 / 0"}))]).await;
    stage.send(&(10..50).map(good).collect::<Vec<_>>()).await;
    let running = stage.start(acting()).await;
    // All but those few that share its lane.
    eventually(SOON, "the good events", async || stage.effects().await > 30).await;
    eventually(SOON, "an offset", async || stage.topic.committed(&group).await == [Some(10)]).await;
    stage.send(&(50..60).map(good).collect::<Vec<_>>()).await;
    let until = Instant::now() + Duration::from_millis(1500);
    eventually(SOON, "the offset has had its time", async || {
        assert_eq!(stage.topic.committed(&group).await, [Some(10)]);
        Instant::now() > until
    })
    .await;
    running.stop().await;
    assert_eq!(stage.topic.committed(&group).await, [Some(10)]);

    let routes = Routes::default().on(super::acting::TOLD, Counter);
    let running = stage.start(routes).await;
    eventually(SOON, "all events", async || stage.effects().await == 61).await;
    assert_eq!(stage.of("bad").await, [1]);
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.topic.committed(&group).await, [Some(61)]);
}

/// How the connection breaks at a COMMIT.
#[derive(Clone, Copy)]
enum Break {
    Answer,
    Request,
}

/// Sets a trap for its own COMMIT, once per tenth event.
struct Trapping {
    proxy: Arc<Proxy>,
    how: Break,
    sprung: Arc<AtomicU32>,
    last: std::sync::Mutex<(i64, Option<Arc<Trap>>)>,
}

impl Trapping {
    fn set(&self, n: i64) {
        let mut last = self.last.lock().unwrap();
        if n % 10 == 0 && n > last.0 {
            // As a simple query: BEGIN says "READ COMMITTED".
            let commit = b"COMMIT\0";
            let trap = match self.how {
                Break::Answer => self.proxy.lose_answer_to(commit, 1),
                Break::Request => self.proxy.lose_request(commit, 1),
            };
            *last = (n, Some(trap));
            self.sprung.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Handler<Postgres> for Trapping {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        self.set(event.payload.n);
        effect(event, tx).await
    }
}

async fn with_commits_broken(how: Break) {
    let services = Services::from_env();
    let mut stage = Stage::set("unknown", 1).await;
    let server = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Arc::new(Proxy::start(server).await);
    stage.config.database.url = stage.schema.url_at(&proxy.url(&services.postgres)).into();
    stage.config.retry.attempts_max = 1;
    stage.config.batch.events_max = 5;
    stage.count("a", 1, 65).await;
    let sprung = Arc::new(AtomicU32::new(0));
    let last = std::sync::Mutex::new((0, None));
    let handler = Trapping { proxy, how, sprung: Arc::clone(&sprung), last };
    let running = stage.start(Routes::default().on("Counted", handler)).await;
    eventually(SOON, "all events", async || stage.of("a").await.len() >= 65).await;
    assert_eq!(stage.of("a").await, (1..=65).collect::<Vec<_>>());
    assert_eq!((sprung.load(Ordering::SeqCst), stage.parked("").await), (6, 0));
    let counts = running.counters.read();
    assert_eq!(counts.failures, 0, "{counts:?}");
    assert!(counts.resyncs >= 3, "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.topic.committed(stage.config.group()).await, [Some(65)]);
}

/// A4: it committed, and nobody knows.
#[tokio::test]
async fn a_lost_answer_to_commit_neither_doubles_nor_counts() {
    with_commits_broken(Break::Answer).await;
}

/// A4: it did not commit, and nobody knows.
#[tokio::test]
async fn a_lost_commit_neither_loses_nor_counts() {
    with_commits_broken(Break::Request).await;
}

const DEFERRED: &str = "CREATE TABLE accounts (id bigint PRIMARY KEY); \
     CREATE TABLE bookings (account bigint REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)";

/// A9: a deferred foreign key. The careful run finds the culprit at once, and nobody else pays.
#[tokio::test]
async fn a_constraint_that_speaks_only_at_commit_is_the_failure_of_its_event() {
    let mut stage = Stage::set("deferred", 1).await;
    stage.schema.run(DEFERRED).await;
    stage.config.retry.attempts_max = 1;
    let how =
        |bad| if bad { json!({"sql": "INSERT INTO bookings VALUES (404)"}) } else { json!({}) };
    let mut records: Vec<Record> = Vec::new();
    for n in 1..=5 {
        records.extend((0..5).map(|a| told(&format!("good-{a}"), n, json!({}))));
        records.push(told("bad", n, how(n == 3)));
    }
    stage.send(&records).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "all settled", async || {
        (stage.effects().await, stage.parked("").await) == (27, 3)
    })
    .await;
    assert_eq!(stage.of("bad").await, [1, 2]);
    assert_eq!((stage.parked("exhausted").await, stage.parked("follower").await), (1, 2));
    let counts = running.counters.read();
    // Nobody has to be found where the culprit had its transaction to itself.
    assert!((1..=2).contains(&counts.failures), "at COMMIT, and then by name: {counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The sequence counts tries, since a rollback leaves it alone.
const SERIALIZATION: &str = "CREATE SEQUENCE tries; \
     CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     IF nextval('tries') <= 4 THEN RAISE SQLSTATE '40001'; END IF; RETURN NULL; END $$; \
     CREATE CONSTRAINT TRIGGER meet AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED \
     FOR EACH ROW EXECUTE FUNCTION meet()";

/// A9: a serialization failure that COMMIT itself reports spends no attempt.
#[tokio::test]
async fn a_conflict_at_commit_is_tried_again_and_not_counted() {
    let mut stage = Stage::set("conflict", 1).await;
    stage.schema.run(SERIALIZATION).await;
    stage.config.retry.attempts_max = 1;
    stage.send(&[counted("a", 1)]).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the event", async || stage.of("a").await == [1]).await;
    let counts = running.counters.read();
    assert_eq!((counts.failures, counts.conflicts, stage.parked("").await), (0, 4, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// COMMIT of `bad` alone fails with this code, each time: what a broken trigger, or a function in C, may do.
fn deferred(condition: &str, code: &str, message: &str) -> String {
    let raised = format!("RAISE EXCEPTION '{message}' USING ERRCODE = '{code}'");
    // The server's own words, which a function has not raised.
    let temporary = "PERFORM count(*) FROM generate_series(1, 100000)";
    let what = if code == "53400" { temporary } else { &raised };
    format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET temp_file_limit = 0 \
         SET work_mem = '64kB' AS $$ BEGIN IF {condition} THEN {what}; END IF; \
         RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
}

/// A COMMIT that the server refuses again and again by one event's own fault ends in its parking, whatever
/// the code says; everybody else goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_one_event_breaks_again_and_again_is_counted_in_the_end() {
    let tests = ["53400", "57000", "58000", "XX000", "08000"].map(async |code| {
        let mut stage = Stage::set("broken", 1).await;
        stage.config.retry.attempts_max = 2;
        stage.config.limits.outage_delay_max = Duration::from_millis(100);
        let refuse = deferred("NEW.aggregate = 'bad' AND NEW.n = 2", code, "told to break");
        stage.schema.run(&refuse).await;
        stage.count("bad", 1, 3).await;
        let running = stage.start(Routes::default().on("Counted", Counter)).await;
        let mut good = 0;
        // Others commit all the time, else nobody could tell it from an outage.
        eventually(SOON, &format!("{code}: it is parked"), async || {
            good += 1;
            stage.count("good", good, good).await;
            stage.parked("exhausted").await == 1
        })
        .await;
        eventually(SOON, &format!("{code}: the others"), async || {
            stage.effects().await == good + 1
        })
        .await;
        assert_eq!(stage.of("bad").await, [1], "{code}");
        assert_eq!(stage.of("good").await, (1..=good).collect::<Vec<_>>(), "{code}");
        eventually(SOON, &format!("{code}: what follows it"), async || {
            (stage.parked("").await, stage.parked("follower").await) == (2, 1)
        })
        .await;
        assert_eq!(running.stop().await, Ended::Shutdown);
    });
    futures::future::join_all(tests).await;
}

/// `NOTIFY`'s queue is full: whoever appends to the outbox waits, whoever does not goes on. It may take long,
/// and is nobody's fault. (The queue takes 8 GiB, so the trigger says what the server would.)
#[tokio::test(flavor = "multi_thread")]
async fn a_full_notification_queue_is_an_outage_and_no_events_fault() {
    let mut stage = Stage::set("notify", 2).await;
    stage.config.retry.attempts_max = 1;
    stage.config.limits.outage_delay_max = Duration::from_millis(100);
    stage.schema.run("CREATE TABLE full_queue (yes boolean)").await;
    stage.schema.run("INSERT INTO full_queue VALUES (true)").await;
    let full = "NEW.aggregate = 'appends' AND EXISTS (SELECT FROM full_queue)";
    let message = "too many notifications in the NOTIFY queue";
    stage.schema.run(&deferred(full, "54000", message)).await;
    stage.count("appends", 1, 2).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let mut good = 0;
    eventually(SOON, "it was met many times", async || {
        good += 1;
        for aggregate in ["x", "y", "z"] {
            stage.count(aggregate, good, good).await;
        }
        running.counters.read().outages > 20
    })
    .await;
    assert_eq!((stage.of("appends").await.len(), stage.parked("").await), (0, 0));
    stage.schema.run("DELETE FROM full_queue").await;
    eventually(SOON, "all events", async || stage.effects().await == good * 3 + 2).await;
    let counts = running.counters.read();
    assert_eq!((counts.failures, stage.parked("").await), (0, 0), "{counts:?}");
    assert_eq!(stage.of("appends").await, [1, 2]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Leaves a nested transaction of the driver open, once: COMMIT then only releases a savepoint.
#[derive(Default)]
struct LeavesOpen(AtomicU32);

impl Handler<Postgres> for LeavesOpen {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            #[expect(clippy::mem_forget, reason = "what a handler must not do")]
            std::mem::forget(tx.unguarded().await?.begin().await?);
        }
        Ok(())
    }
}

/// A2, A5: a COMMIT that did not end the transaction has committed nothing, whatever the driver says.
#[tokio::test]
async fn a_commit_that_leaves_the_session_in_its_transaction_is_no_commit() {
    let stage = Stage::set("nested", 1).await;
    stage.count("a", 1, 3).await;
    let routes = Routes::default().on("Counted", LeavesOpen::default());
    let running = stage.start(routes).await;
    eventually(SOON, "all events", async || stage.effects().await == 3).await;
    eventually(SOON, "all counted", async || running.counters.read().applied == 3).await;
    let counts = running.counters.read();
    assert_eq!((counts.applied, counts.failures, counts.resyncs), (3, 1, 0), "{counts:?}");
    assert_eq!(stage.of("a").await, [1, 2, 3]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}
