//! The order of parked queues, and what is parked twice: a logical copy of the database carries rows and
//! not sequences, and a producer may use an id again.

use inbox_consumer::{Ended, config::Format};
use outbox_core::{ReadRules, Source};
use tests::{Producer, Record, Running, SOON, Stage, counted, eventually, unique};

use super::{
    commands::{ran, worker},
    parked_support::{said, seq, told, typed},
    release_support::{audited, break_at, intend, mend, mendable, never, nothing_is_parked, set},
    runtime_support::{up_to, watermark},
};

/// More often than an event at fault is given.
const TRIES: i64 = 6;

/// As a logical copy leaves it.
async fn restart(stage: &Stage, table: &str, column: &str, at: i64) {
    let sql = format!("ALTER TABLE {table} ALTER COLUMN {column} RESTART WITH {at}");
    stage.schema.run(&sql).await;
}

/// Why partitions stand still.
fn stands(running: &Running) -> String {
    let all = running.readings.partitions();
    let reasons = all.iter().filter_map(|at| at.standstill.as_ref());
    reasons.map(|reason| reason.sentence.clone()).collect()
}

/// Finding 27: events that were parked behind a switch-over have smaller numbers than those before it, and
/// are released, listed and promoted behind them all the same.
#[tokio::test]
async fn a_queue_keeps_its_order_over_a_copy_without_sequences() {
    let stage = set("switched", 1, never()).await;
    break_at(&stage, "a", 1).await;
    restart(&stage, "inbox_parked", "parked_seq", 1_000).await;
    let running = stage.start(mendable()).await;
    stage.count("a", 1, 2).await;
    eventually(SOON, "two parked", async || stage.parked("").await == 2).await;
    restart(&stage, "inbox_parked", "parked_seq", 1).await;
    stage.count("a", 3, 4).await;
    eventually(SOON, "four parked", async || stage.parked("").await == 4).await;
    assert_eq!((seq(&stage, 0).await, seq(&stage, 2).await), ("1000".to_owned(), "1".to_owned()));

    let list = told(&stage, &["parked", "list", "--followers", "--json"]).await;
    let rows = list["parked"].as_array().unwrap();
    let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("offset"), [0, 1, 2, 3]);
    assert_eq!(column("head"), [1_000; 4]);
    assert_eq!(column("followers"), [3, 2, 1, 0]);

    mend(&stage).await;
    let out = said(&stage, &["parked", "release", "1000", "--wait", "20s"]).await;
    assert!(out.ends_with("released: 1 event, and what followed\n"), "{out}");
    assert_eq!(stage.of("a").await, up_to(4));
    nothing_is_parked(&stage).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The same with an event between that fails again: what is before it is released, and it is the head.
#[tokio::test]
async fn a_queue_is_promoted_in_its_order_over_a_copy_without_sequences() {
    let stage = set("promoted", 1, never()).await;
    break_at(&stage, "a", 1).await;
    restart(&stage, "inbox_parked", "parked_seq", 1_000).await;
    let running = stage.start(mendable()).await;
    stage.count("a", 1, 40).await;
    eventually(SOON, "parked", async || stage.parked("").await == 40).await;
    restart(&stage, "inbox_parked", "parked_seq", 1).await;
    stage.count("a", 41, 80).await;
    eventually(SOON, "all parked", async || stage.parked("").await == 80).await;
    mend(&stage).await;
    intend(&stage, "release", "anna", "\"offset\" = 0").await;
    nothing_is_parked(&stage).await;
    assert_eq!(stage.of("a").await, up_to(80));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 27: `check` says which sequences are behind their tables, and what mends them; and what a row
/// that exists already means is told as that, at once, and blames no event.
#[tokio::test]
async fn a_sequence_behind_its_table_is_told_with_what_mends_it() {
    let stage = set("sequences", 1, never()).await;
    break_at(&stage, "a", 1).await;
    restart(&stage, "inbox_parked", "parked_seq", 1_000_000).await;
    let running = stage.start(mendable()).await;
    stage.count("a", 1, 1).await;
    eventually(SOON, "one parked", async || stage.parked("").await == 1).await;
    let (_, out, err) = ran(worker(&stage), "check").await;
    assert!(!out.contains("setval"), "{out}{err}");
    // Each refused row takes a number: so many will not be taken in the time of this test.
    let rows = "INSERT INTO inbox_parked (parked_seq, partition_ref, lane, aggregate_key, consumer_ref, event_id,
        fingerprint, \"offset\", leader_epoch, reason, attempts, due_at, record) OVERRIDING SYSTEM VALUE
        SELECT s, -1, 0, aggregate_key, -1, event_id, fingerprint, s, 0, 'rejected', 0, 'infinity', record
        FROM inbox_parked, generate_series(1, 5000) s";
    stage.schema.run(rows).await;
    restart(&stage, "inbox_parked", "parked_seq", 1).await;
    restart(&stage, "inbox_partitions", "partition_ref", 1).await;
    restart(&stage, "inbox_consumers", "consumer_ref", 1).await;
    stage.count("a", 2, 2).await;
    let told = "SELECT count(*) FROM inbox_parked WHERE partition_ref > 0";
    eventually(SOON, "it is named", async || stands(&running).contains("setval")).await;
    let tries = "SELECT last_value FROM inbox_parked_parked_seq_seq";
    let again = async || stage.schema.number(tries).await >= TRIES;
    eventually(SOON, "it was tried again and again", again).await;
    assert_eq!(stage.schema.number(told).await, 1);
    let (code, out, err) = ran(worker(&stage), "check").await;
    assert_eq!(code, Some(5), "{out}{err}");
    for (table, column, most) in [
        ("inbox_parked", "parked_seq", 1_000_000),
        ("inbox_partitions", "partition_ref", 1),
        ("inbox_consumers", "consumer_ref", 1),
    ] {
        let mends = format!("SELECT setval('{table}_{column}_seq', {most})");
        assert!(out.contains(&mends), "{mends}: {out}{err}");
    }
    assert!(!out.contains("inbox_audit_audit_seq_seq"), "{out}");
    stage.schema.run("SELECT setval('inbox_parked_parked_seq_seq', 1000000)").await;
    eventually(SOON, "both parked", async || stage.schema.number(told).await == 2).await;
    assert_eq!(stage.parked("exhausted").await + stage.parked("follower").await, 2);
    let attempts = "SELECT max(attempts)::bigint FROM inbox_parked WHERE reason = 'follower'";
    assert_eq!(stage.schema.number(attempts).await, 0, "an innocent event was blamed");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A partition that needs a new row while the sequence is behind is told as that.
#[tokio::test]
async fn a_new_partition_that_collides_is_named() {
    let mut stage = Stage::set("collides", 2).await;
    stage.send(&[counted("a", 1).partition(0)]).await;
    let running = stage.start(mendable_without_table()).await;
    let two = "SELECT count(*) FROM inbox_partitions";
    eventually(SOON, "both", async || stage.schema.number(two).await == 2).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let taken = stage.schema.number("SELECT max(partition_ref) FROM inbox_partitions").await;
    let rows = format!(
        "INSERT INTO inbox_partitions (partition_ref, consumer_ref, topic, topic_id, partition, lane_count, lane_rule, watermark)
        OVERRIDING SYSTEM VALUE SELECT {taken} + s, -1, 'other', gen_random_uuid(), s, 1, '', 0 FROM generate_series(1, 5000) s"
    );
    stage.schema.run(&rows).await;
    restart(&stage, "inbox_partitions", "partition_ref", taken).await;
    // Another consumer of the same tables: its partitions have no rows yet.
    stage.config.consumer.name = unique("c");
    let running = stage.start(mendable_without_table()).await;
    eventually(SOON, "it is named", async || stands(&running).contains("setval")).await;
    let most = taken + 5_000;
    stage.schema.run(&format!("SELECT setval('inbox_partitions_partition_ref_seq', {most})")).await;
    let mine = "SELECT count(*) FROM inbox_partitions WHERE consumer_ref > 0";
    eventually(SOON, "both of each", async || stage.schema.number(mine).await == 4).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

fn mendable_without_table() -> inbox_consumer::Routes<sqlx::Postgres> {
    inbox_consumer::Routes::default().on("Counted", tests::Counter)
}

/// A copy under an id that another event has: number `n` of `a`.
fn reused(n: i64) -> Record {
    Record::event("used", "Counted", "a", &format!("{{\"n\":{n}}}"))
}

/// Two copies of one event whose id is another's are parked: a bulk release has its effect once, and says
/// what became of the other. A third one, of other content, is an event of its own.
#[tokio::test]
async fn a_bulk_release_of_copies_under_a_used_id_has_one_effect() {
    let stage = set("reused", 1, never()).await;
    let running = stage.start(mendable()).await;
    stage.send(&[reused(1), reused(2), reused(2), reused(3)]).await;
    eventually(SOON, "parked", async || stage.parked("mismatch").await == 3).await;
    let release = ["parked", "release", "--reason", "mismatch", "--yes", "--wait", "20s"];
    // The one of other content stays, and waits for its own decision.
    let (_, out, err) = typed(&stage, &release).await;
    assert!(out.contains("release requested: 1 event"), "{out}{err}");
    eventually(SOON, "two gone", async || stage.parked("mismatch").await == 1).await;
    assert_eq!(stage.of("a").await, [1, 2], "what was released");
    assert_eq!(audited(&stage, "copy").await, 1, "nobody is told of the copy");
    said(&stage, &release).await;
    nothing_is_parked(&stage).await;
    assert_eq!(stage.of("a").await, [1, 2, 3]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Two records that could not be read turn out to have one id and different content: the first is run,
/// the other is not lost; a person who releases it all the same has it run.
#[tokio::test]
async fn what_turns_out_to_have_one_id_is_decided_one_by_one() {
    let mut stage = set("one-id", 1, never()).await;
    let record = |n: i64| {
        let payload = format!("{{\"n\":{n}}}");
        Record::default().key("a").payload(payload).header("id", "used").header("type", "Counted")
    };
    let running = stage.start(mendable()).await;
    Producer::new(stage.topic.bootstrap()).send(stage.topic.name(), &[record(1), record(2)]).await;
    eventually(SOON, "parked", async || stage.parked("").await == 2).await;
    eventually(SOON, "settled", async || watermark(&stage, 0).await == 2).await;
    assert_eq!(running.stop().await, Ended::Shutdown);

    stage.config.events.format = Format::Custom;
    let header = |name: &str| Source::Header(name.into());
    stage.config.events.rules = Some(ReadRules::new(header("id"), header("type")).into());
    let running = stage.start(mendable()).await;
    intend(&stage, "release", "anna", "true").await;
    eventually(SOON, "the first", async || stage.of("a").await == [1]).await;
    eventually(SOON, "the other", async || stage.parked("mismatch").await == 1).await;
    intend(&stage, "release", "anna", "true").await;
    nothing_is_parked(&stage).await;
    assert_eq!(stage.of("a").await, [1, 2]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}
