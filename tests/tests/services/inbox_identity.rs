//! What one event is: ids of any form, duplicates, impostors, and whose inbox it is.

use inbox_consumer::{Ended, Routes};
use serde_json::json;
use sqlx::Connection as _;
use tests::{Counter, Record, SOON, Stage, counted, eventually, unique};

use super::acting::{acting, told, told_as};

/// B2, B9: the producer sends an event again, in the same batch and in a later one.
#[tokio::test]
async fn a_second_copy_of_an_event_has_no_second_effect() {
    let stage = Stage::set("copies", 1).await;
    stage.send(&[counted("a", 1), counted("a", 1), counted("a", 2)]).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the first two", async || stage.of("a").await == [1, 2]).await;
    stage.send(&[counted("a", 1), counted("a", 2), counted("a", 3), counted("a", 3)]).await;
    eventually(SOON, "the third", async || stage.of("a").await.contains(&3)).await;
    eventually(SOON, "all seen", async || running.counters.read().duplicates == 4).await;
    assert_eq!(stage.of("a").await, [1, 2, 3]);
    // Nor does a batch get in its own way.
    assert_eq!(running.counters.read().conflicts, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// B7: two consumers share the tables, and each handles every event.
#[tokio::test]
async fn two_consumers_on_one_schema_handle_every_event_each() {
    let mut stage = Stage::set("scope", 1).await;
    stage.count("a", 1, 10).await;
    let first = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the first consumer's", async || stage.effects().await == 10).await;
    stage.config.consumer.name = unique("other");
    let other = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the other's", async || stage.effects().await == 20).await;
    // An effect is there before the answer to its COMMIT is, and so before it is counted.
    eventually(SOON, "all counted", async || other.counters.read().applied == 10).await;
    assert_eq!(other.counters.read().duplicates, 0);
    let rows = "SELECT count(*) FROM inbox_events GROUP BY consumer_ref LIMIT 1";
    assert_eq!(stage.schema.number(rows).await, 10);
    assert_eq!(first.stop().await, Ended::Shutdown);
    assert_eq!(other.stop().await, Ended::Shutdown);
}

/// B10: ids that are no UUIDs, however long and whatever bytes, are told apart, and none blocks the
/// partition.
#[tokio::test]
async fn an_id_of_any_bytes_is_an_id_or_is_parked() {
    let stage = Stage::set("ids", 1).await;
    let with = |n: i64, id: Vec<u8>| {
        Record::default()
            .key(format!("k{n}"))
            .payload(format!("{{\"n\":{n}}}"))
            .header("event_type", "Counted")
            .header("event_id", id)
    };
    let long = |end: u8| [vec![b'x'; 8000], vec![end]].concat();
    let ids = [
        long(b'a'),
        long(b'b'),
        b"nul\0a".to_vec(),
        b"nul\0b".to_vec(),
        vec![0xff, 0xfe, 0x80],
        vec![0xff, 0xfe, 0x81],
        "söme-ïd".as_bytes().to_vec(),
        b"'; DROP TABLE effects; --".to_vec(),
    ];
    let mut records: Vec<_> = (1..).zip(&ids).map(|(n, id)| with(n, id.clone())).collect();
    records.extend(records.clone());
    records.push(counted("end", 1));
    stage.send(&records).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the last one", async || stage.of("end").await == [1]).await;
    eventually(SOON, "all accounted for", async || {
        let counts = running.counters.read();
        counts.applied + counts.duplicates + counts.parked == 17
    })
    .await;
    let counts = running.counters.read();
    let handled = stage.effects().await - 1;
    assert!(handled + stage.parked("undecodable").await >= 8, "{counts:?}");
    let doubled = "SELECT count(*) - count(DISTINCT n) FROM effects WHERE aggregate <> 'end'";
    assert_eq!((stage.schema.number(doubled).await, counts.failures), (0, 0), "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// B11: a producer that sends no id, an empty one, or the same for everything. No event vanishes as a
/// duplicate of another.
#[tokio::test]
async fn an_event_without_an_id_of_its_own_is_parked_and_never_dropped() {
    let stage = Stage::set("constant", 1).await;
    let bare =
        |key: &str| Record::default().key(key).payload("{\"n\":1}").header("event_type", "Counted");
    let constant = |n: i64| Record::event("same", "Counted", "c", &format!("{{\"n\":{n}}}"));
    stage
        .send(&[
            bare("missing"),
            bare("empty").header("event_id", ""),
            bare("null").null_header("event_id"),
            constant(1),
            constant(2),
            constant(2),
        ])
        .await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the first of them", async || stage.effects().await == 1).await;
    eventually(SOON, "the others", async || stage.parked("").await == 5).await;
    stage.send(&[constant(3), constant(1)]).await;
    eventually(SOON, "a later one", async || stage.parked("mismatch").await == 3).await;
    eventually(SOON, "a copy", async || running.counters.read().duplicates == 1).await;
    assert_eq!((stage.parked("undecodable").await, stage.of("c").await), (3, vec![1]));
    assert_eq!(stage.effects().await, 1);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// B16: the first copy is parked, with a follower behind it. Further copies settle and change nothing:
/// the parked rows own these events.
#[tokio::test]
async fn a_copy_of_a_parked_event_neither_runs_nor_parks_again() {
    let stage = Stage::set("parked", 1).await;
    let (bad, follower) = (told("a", 1, json!({"reject": true})), told("a", 2, json!({})));
    stage.send(&[bad.clone(), follower.clone(), told("b", 1, json!({}))]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "parked", async || stage.parked("").await == 2).await;
    stage.send(&[bad.clone(), follower, told("b", 1, json!({})), bad]).await;
    stage.send(&[told_as("a-3", "a", 3, json!({})), told("b", 2, json!({}))]).await;
    eventually(SOON, "the end", async || stage.of("b").await == [1, 2]).await;
    eventually(SOON, "all seen", async || running.counters.read().duplicates == 4).await;
    eventually(SOON, "a further follower", async || stage.parked("").await == 3).await;
    assert_eq!((stage.parked("rejected").await, stage.parked("follower").await), (1, 2));
    assert_eq!((stage.of("a").await, running.counters.read().failures), (vec![], 1));
    let marked = "SELECT count(*) FROM inbox_events WHERE parked";
    assert_eq!(stage.schema.number(marked).await, 3);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Takes an id in a transaction of its own, as another worker would.
async fn take(stage: &Stage, id: &str) -> sqlx::PgConnection {
    let mut other = sqlx::PgConnection::connect(&stage.schema.url()).await.unwrap();
    let sql = "WITH c AS (SELECT consumer_ref FROM inbox_consumers WHERE consumer = $1) \
               INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, \"offset\") \
               SELECT consumer_ref, $2::uuid, decode(repeat('00', 16), 'hex'), 0, 0 FROM c";
    sqlx::raw_sql("BEGIN").execute(&mut other).await.unwrap();
    let done = sqlx::query(sql).bind(&stage.config.consumer.name).bind(id).execute(&mut other);
    assert_eq!(done.await.unwrap().rows_affected(), 1);
    other
}

async fn register(stage: &Stage) {
    let name = &stage.config.consumer.name;
    stage.schema.run(&format!("INSERT INTO inbox_consumers (consumer) VALUES ('{name}')")).await;
}

fn id(n: u8) -> String {
    format!("00000000-0000-4000-8000-0000000000{n:02x}")
}

async fn waiters(stage: &Stage) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 \
               AND wait_event_type = 'Lock'";
    let name = format!("inbox/{}", stage.config.consumer.name);
    sqlx::query_scalar(sql).bind(name).fetch_one(stage.schema.pool()).await.unwrap()
}

/// B13: the role's default is a snapshot, and another transaction commits the id while the claim waits
/// for it. The insert is the test, so the event is seen for what it is; none is an error.
#[tokio::test]
async fn an_id_that_is_committed_while_the_claim_waits_is_known() {
    let mut stage = Stage::set("snapshot", 1).await;
    let snapshot = "%20-c%20default_transaction_isolation%3Drepeatable%5C%20read";
    stage.config.database.url = format!("{}{snapshot}", stage.schema.url()).into();
    register(&stage).await;
    let mut other = take(&stage, &id(1)).await;
    stage.send(&[told_as(&id(1), "a", 1, json!({})), told_as(&id(2), "b", 1, json!({}))]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "the claim waits", async || waiters(&stage).await > 0).await;
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    // The other has other content: a mismatch, and no duplicate to drop.
    eventually(SOON, "settled", async || stage.parked("mismatch").await == 1).await;
    eventually(SOON, "settled", async || stage.of("b").await == [1]).await;
    assert_eq!((stage.effects().await, running.counters.read().failures), (1, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// B13: the same, and the other transaction is rolled back: the event is fresh.
#[tokio::test]
async fn an_id_that_is_given_up_while_the_claim_waits_is_fresh() {
    let stage = Stage::set("rolled", 1).await;
    register(&stage).await;
    let mut other = take(&stage, &id(1)).await;
    stage.send(&[told_as(&id(1), "a", 1, json!({}))]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "the claim waits", async || waiters(&stage).await > 0).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    eventually(SOON, "handled", async || stage.of("a").await == [1]).await;
    assert_eq!((stage.effects().await, stage.parked("").await), (1, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Deadlocks that the server has ended. No other test makes any.
async fn deadlocks(conn: &mut sqlx::PgConnection) -> i64 {
    let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    sqlx::query_scalar(count).fetch_one(conn).await.unwrap()
}

/// B14: two partitions claim the same ids in crossing order, at the same time: both wait for an id in
/// the middle that a third transaction holds. Sorted, one waits for the other; nothing deadlocks.
#[tokio::test]
async fn crossing_claims_wait_for_each_other_and_do_not_deadlock() {
    let mut stage = Stage::set("crossing", 2).await;
    stage.config.database.lock_timeout = std::time::Duration::from_secs(15);
    stage.lengthen_drain();
    let copy = |n: u8, p: i32| told_as(&id(n), "a", n.into(), json!({})).partition(p);
    let running = stage.start(acting()).await;
    // One alone in each: then the lanes are known to be quick, and have the others in one claim.
    stage.send(&[copy(8, 0), copy(9, 1)]).await;
    eventually(SOON, "one in each", async || stage.effects().await == 2).await;
    let mut other = take(&stage, &id(2)).await;
    let before = deadlocks(&mut other).await;
    stage.send(&[copy(1, 0), copy(2, 0), copy(3, 0)]).await;
    stage.send(&[copy(3, 1), copy(2, 1), copy(1, 1)]).await;
    eventually(SOON, "both wait", async || waiters(&stage).await == 2).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    eventually(SOON, "all settled", async || {
        let counts = running.counters.read();
        counts.applied + counts.duplicates == 8
    })
    .await;
    let counts = running.counters.read();
    // The one that waited met what the other had committed, and came again.
    assert_eq!((counts.applied, counts.duplicates, counts.conflicts), (5, 3, 1), "{counts:?}");
    assert_eq!(stage.effects().await, 5);
    assert_eq!(running.stop().await, Ended::Shutdown);
    // A session tells its numbers when it ends.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(deadlocks(&mut other).await, before);
}

/// A fingerprint has 16 bytes, and the database says so, as it does on SQLite.
#[tokio::test]
async fn the_table_refuses_a_fingerprint_of_another_length() {
    let stage = Stage::set("fingerprint", 1).await;
    let row = "INSERT INTO inbox_events (consumer_ref, partition_ref, \"offset\", event_id, fingerprint) \
               VALUES (1, 1, 1, gen_random_uuid(), '\\x00')";
    let error = sqlx::raw_sql(row).execute(stage.schema.pool()).await.unwrap_err();
    let said = error.as_database_error().expect("the database refused it");
    assert_eq!(said.constraint(), Some("inbox_events_fingerprint_check"), "{said}");
}
