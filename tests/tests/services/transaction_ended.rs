//! Handlers that end the transaction that is not theirs.

use inbox_consumer::Ended;
use serde_json::json;
use tests::{Record, SOON, Stage, eventually};

use super::acting::{acting, told};

/// Events that have an effect or a parked row.
const ACCOUNTED: &str = "SELECT count(*) FROM (SELECT event_id FROM effects UNION \
     SELECT event_id::text FROM inbox_parked) e";
const DOUBLED: &str = "SELECT count(*) - count(DISTINCT event_id) FROM effects";

/// Aggregates `good-0` to `good-9` with five events each around `bad` events.
async fn send_among_good(stage: &Stage, bad: serde_json::Value) {
    let good = |n| (0..10).map(move |a| told(&format!("good-{a}"), n, json!({})));
    let mut records: Vec<_> = (1..=2).flat_map(good).collect();
    records.extend([told("bad", 1, json!({})), told("bad", 2, bad), told("bad", 3, json!({}))]);
    records.extend((3..=5).flat_map(good));
    stage.send(&records).await;
}

async fn good_unhurt(stage: &Stage) {
    for a in 0..10 {
        assert_eq!(stage.of(&format!("good-{a}")).await, [1, 2, 3, 4, 5], "aggregate good-{a}");
    }
}

/// A3: the executor refuses them before they are sent, behind comments and in texts of several, too.
#[tokio::test]
async fn a_verb_that_ends_nests_or_weakens_the_transaction_is_refused() {
    let verbs = [
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "COMMIT AND CHAIN",
        "ROLLBACK; BEGIN READ WRITE",
        "BEGIN",
        "START TRANSACTION",
        "SAVEPOINT mine",
        "PREPARE TRANSACTION 'x'",
        "SET TRANSACTION READ ONLY",
        "SET LOCAL synchronous_commit = off",
        "/* no */ commit -- really",
        "SELECT 1; COMMIT",
    ];
    let mut stage = Stage::set("verbs", 1).await;
    stage.config.retry.attempts_max = 2;
    let mut records = Vec::new();
    for n in 1..=3 {
        for (at, verb) in verbs.iter().enumerate() {
            let how = if n == 2 { json!({"sql": verb}) } else { json!({}) };
            records.push(told(&format!("v{at}"), n, how));
        }
    }
    stage.send(&records).await;
    let running = stage.start(acting()).await;
    let count = i64::try_from(verbs.len()).unwrap();
    eventually(SOON, "all settled", async || {
        (stage.effects().await, stage.parked("").await) == (count, 2 * count)
    })
    .await;
    for at in 0..verbs.len() {
        assert_eq!(stage.of(&format!("v{at}")).await, [1]);
    }
    assert_eq!((stage.parked("exhausted").await, stage.parked("follower").await), (count, count));
    let told = "SELECT count(*) FROM inbox_parked WHERE record LIKE '%a handler may not run%'";
    assert_eq!(stage.schema.number(told).await, count);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A3: with the statement out of sight. Nothing of the batch was kept, so its neighbours run again
/// and are unhurt; what the handler writes after its ROLLBACK does not stay either.
#[tokio::test]
async fn a_handler_that_rolls_back_past_the_guard_is_parked_alone() {
    for sql in ["ROLLBACK", "ROLLBACK AND CHAIN", "ROLLBACK; BEGIN READ WRITE"] {
        let stage = Stage::set("rollback", 1).await;
        send_among_good(&stage, json!({"sql": sql, "unguarded": true})).await;
        let running = stage.start(acting()).await;
        eventually(SOON, "all accounted for", async || {
            stage.schema.number(ACCOUNTED).await == 53 && stage.parked("").await == 2
        })
        .await;
        good_unhurt(&stage).await;
        assert_eq!(stage.of("bad").await, [1], "{sql}");
        assert_eq!((stage.parked("rejected").await, stage.parked("follower").await), (1, 1));
        assert_eq!(running.stop().await, Ended::Shutdown);
        assert_eq!(
            stage.schema.number("SELECT coalesce(max(watermark), 0) FROM inbox_partitions").await,
            53
        );
    }
}

/// A3: what is written after the transaction has ended would be an effect without an inbox row: the
/// session takes no writes outside the runtime's own transaction.
#[tokio::test]
async fn a_write_after_the_end_of_the_transaction_does_not_stay() {
    let stage = Stage::set("after", 1).await;
    send_among_good(&stage, json!({"sql": "ROLLBACK", "unguarded": true, "again": true})).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "all accounted for", async || {
        stage.schema.number(ACCOUNTED).await == 53 && stage.parked("").await == 2
    })
    .await;
    good_unhurt(&stage).await;
    assert_eq!(stage.of("bad").await, [1]);
    assert_eq!(stage.parked("rejected").await, 1);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A3: the inbox rows of the whole batch are durable, and only some of the effects. Nobody can know
/// which: what is not whole is parked as torn, nothing is settled as a duplicate, nothing runs twice.
#[tokio::test]
async fn a_handler_that_commits_past_the_guard_tears_its_batch_and_loses_nothing() {
    for sql in ["COMMIT", "COMMIT AND CHAIN", "COMMIT; BEGIN READ WRITE"] {
        let stage = Stage::set("commit", 1).await;
        send_among_good(&stage, json!({"sql": sql, "unguarded": true})).await;
        let running = stage.start(acting()).await;
        eventually(SOON, "the watermark passes all", async || {
            stage.schema.number("SELECT coalesce(max(watermark), 0) FROM inbox_partitions").await
                == 53
        })
        .await;
        assert_eq!(stage.schema.number(ACCOUNTED).await, 53, "{sql}");
        assert_eq!(stage.schema.number(DOUBLED).await, 0, "{sql}");
        assert!(stage.parked("torn").await > 0);
        let other = "SELECT count(*) FROM inbox_parked WHERE reason NOT IN ('torn', 'follower')";
        assert_eq!(stage.schema.number(other).await, 0);
        // The next batches are whole again.
        stage.send(&[told("new", 1, json!({})), told("new", 2, json!({}))]).await;
        eventually(SOON, "new events are handled", async || stage.of("new").await == [1, 2]).await;
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
}

/// A2, C10: events of one batch that come before a parked one of their aggregate are handled, not
/// parked behind it.
#[tokio::test]
async fn what_comes_before_a_parked_event_does_not_follow_it() {
    let stage = Stage::set("before", 1).await;
    let step = |n| told("a", n, json!({}));
    let reject = |n| told("b", n, json!({"reject": n == 3}));
    let unknown = Record::event("a-3", "Unknown", "a", "{}");
    stage.send(&[step(1), step(2), unknown, step(4)]).await;
    stage.send(&(1..=4).map(reject).collect::<Vec<_>>()).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "all settled", async || stage.effects().await + stage.parked("").await == 8)
        .await;
    assert_eq!((stage.of("a").await, stage.of("b").await), (vec![1, 2], vec![1, 2]));
    assert_eq!(stage.parked("follower").await, 2);
    assert_eq!((stage.parked("unknown_type").await, stage.parked("rejected").await), (1, 1));
    assert_eq!(running.stop().await, Ended::Shutdown);
}
