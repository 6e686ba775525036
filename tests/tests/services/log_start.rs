//! Where reading begins and goes on: offsets, resets, retention, gaps, the table of `docs/start.md`.

use std::sync::Arc;

use futures::future::join_all;
use inbox_consumer::{
    Ended, Event, Handler, HandlerResult, Routes, Tx,
    config::{Config, Start},
};
use sqlx::Postgres;
use tests::{Count, Counter, Ending, Producer, Running, SOON, Stage, counted, eventually, unique};

use super::runtime_support::{Apart, on, up_to, watermark, worker};

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// D1: what is committed is the next offset, everywhere: each restart begins with the first new record,
/// none is left out, none comes twice.
#[tokio::test]
async fn every_restart_begins_with_the_next_record() {
    let stage = Stage::set("next", 1).await;
    for n in 1..=3_i64 {
        stage.count("a", n, n).await;
        let running = stage.start(routes()).await;
        eventually(SOON, "its effect", async || stage.effects().await == n).await;
        let counters = Arc::clone(&running.counters);
        assert_eq!(running.stop().await, Ended::Shutdown);
        // An effect is there before it is counted.
        let counts = counters.read();
        assert_eq!((counts.applied, counts.duplicates), (1, 0), "round {n}");
        assert_eq!(watermark(&stage, 0).await, n);
        assert_eq!(stage.topic.committed(stage.config.group()).await, [Some(n)]);
    }
    assert_eq!(stage.of("a").await, up_to(3));
}

/// D16: an operator sets the group's offset forwards: nothing is skipped. Backwards: nothing is done
/// twice.
#[tokio::test]
async fn a_reset_of_the_group_neither_skips_nor_repeats() {
    let stage = Stage::set("reset", 1).await;
    let group = stage.config.group();
    stage.count("a", 1, 10).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "ten", async || stage.effects().await == 10).await;
    assert_eq!(running.stop().await, Ended::Shutdown);

    stage.count("a", 11, 20).await;
    stage.topic.commit(group, 0, 20).await;
    let running = stage.start(routes()).await;
    // An event behind the skipped ones: when it is there, they had their chance.
    stage.count("a", 21, 21).await;
    eventually(SOON, "the last", async || stage.of("a").await.contains(&21)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.of("a").await, up_to(21));

    stage.topic.commit(group, 0, 3).await;
    let running = stage.start(routes()).await;
    stage.count("a", 22, 22).await;
    eventually(SOON, "the last", async || stage.of("a").await.contains(&22)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.of("a").await, up_to(22));
    assert_eq!(stage.topic.committed(group).await, [Some(22)]);
}

/// D3: retention up to the watermark removes nothing that is needed; beyond it the partition stands
/// still and says so, instead of going on behind the gap.
#[tokio::test]
async fn records_removed_before_they_were_handled_stop_the_partition() {
    let stage = Stage::set("removed", 2).await;
    stage.send(&on(0, "a", 1, 5)).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "five", async || stage.effects().await == 5).await;
    assert_eq!(running.stop().await, Ended::Shutdown);

    stage.send(&on(0, "a", 6, 10)).await;
    stage.topic.delete_before(0, 5).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "ten", async || stage.effects().await == 10).await;
    assert_eq!(running.stop().await, Ended::Shutdown);

    stage.send(&on(0, "a", 11, 20)).await;
    stage.topic.delete_before(0, 15).await;
    let running = stage.start(routes()).await;
    let told = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE 'log_starts_above%'";
    eventually(SOON, "it is told", async || stage.schema.number(told).await == 1).await;
    stage.send(&on(1, "b", 1, 3)).await;
    eventually(SOON, "the other partition goes on", async || stage.of("b").await == up_to(3)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((stage.of("a").await, watermark(&stage, 0).await), (up_to(10), 10));
}

/// E1: aborted transactions and markers leave offsets without records; the watermark passes them, to the
/// very end of the log.
#[tokio::test]
async fn the_watermark_passes_aborted_transactions() {
    let stage = Stage::set("gaps", 1).await;
    let send = async |from, to, ending| {
        let records = on(0, "a", from, to);
        let (bootstrap, topic) = (stage.topic.bootstrap(), stage.topic.name());
        Producer::send_in_transaction(bootstrap, topic, &records, ending).await;
    };
    send(1, 3, Ending::Abort).await;
    send(1, 4, Ending::Commit).await;
    let running = stage.start(routes()).await;
    send(5, 7, Ending::Abort).await;
    stage.count("a", 5, 6).await;
    send(7, 9, Ending::Commit).await;
    send(10, 12, Ending::Abort).await;
    eventually(SOON, "the committed ones", async || stage.effects().await == 9).await;
    let (_, end) = stage.topic.offsets(0).await;
    let lag = async || end - watermark(&stage, 0).await;
    eventually(SOON, "the database has no lag", async || lag().await == 0).await;
    let committed = async || stage.topic.committed(stage.config.group()).await == [Some(end)];
    eventually(SOON, "the group has no lag", committed).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.of("a").await, up_to(9));
}

/// D3, docs/start.md: a consumer that starts at the end of the log and crashes before its first event
/// reads on there, not at the end that the log has by then.
#[tokio::test]
async fn a_start_at_the_end_is_remembered() {
    let mut stage = Stage::set("latest", 1).await;
    stage.config.kafka.start = Start::Latest;
    stage.count("a", 1, 5).await;
    // In a group of its own: what it may have committed to Kafka shall not help the next one.
    let mut config = stage.config.clone();
    config.kafka.group = Some(unique("first"));
    let crashing = Apart::start(&config, routes()).await;
    eventually(SOON, "the start is known", async || watermark(&stage, 0).await == 5).await;
    crashing.crash();
    stage.count("a", 6, 10).await;
    let running = stage.start(routes()).await;
    stage.count("a", 11, 11).await;
    eventually(SOON, "the last", async || stage.of("a").await.contains(&11)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.of("a").await, (6..=11).collect::<Vec<i64>>());
}

/// Writes effects under a name that tells whose they are.
struct Signed(String);

impl Handler<Postgres> for Signed {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, '', 0)")
            .bind(&self.0)
            .bind(event.payload.n)
            .execute(tx)
            .await?;
        Ok(())
    }
}

/// Who has history where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum History {
    Database,
    Group,
    Neither,
}

const CASES: [(History, Start); 9] = [
    (History::Database, Start::Earliest),
    (History::Database, Start::Latest),
    (History::Database, Start::Error),
    (History::Group, Start::Earliest),
    (History::Group, Start::Latest),
    (History::Group, Start::Error),
    (History::Neither, Start::Earliest),
    (History::Neither, Start::Latest),
    (History::Neither, Start::Error),
];

/// The first event that each case handles, out of nine; the ninth is sent when all have started.
fn first_event(history: History, start: Start) -> Option<i64> {
    match (history, start) {
        // Four were handled before, and are not handled again.
        (History::Database, _) | (History::Neither, Start::Earliest) => Some(1),
        (History::Group, _) => Some(3),
        (History::Neither, Start::Latest) => Some(9),
        (History::Neither, Start::Error) => None,
    }
}

fn name(case: (History, Start)) -> String {
    format!("{:?}-{:?}", case.0, case.1)
}

fn config(stage: &Stage, case: (History, Start)) -> Config {
    let mut config = stage.config.clone();
    config.consumer.name = format!("{}-{}", stage.config.consumer.name, name(case));
    config.kafka.start = case.1;
    config
}

async fn start(stage: &Stage, case: (History, Start)) -> Running {
    let routes = Routes::default().on("Counted", Signed(name(case)));
    let built = inbox_consumer::Consumer::builder(config(stage, case), routes).build().await;
    Running::of(built.unwrap())
}

/// Handles the first four events, then loses the group, as a long downtime does (D4).
async fn database_history(stage: &Stage, case: (History, Start)) {
    let mut earlier = stage.config.clone();
    earlier.consumer.name = config(stage, case).consumer.name;
    let routes = Routes::default().on("Counted", Signed(name(case)));
    let built = inbox_consumer::Consumer::builder(earlier.clone(), routes).build().await;
    let running = Running::of(built.unwrap());
    eventually(SOON, "four", async || stage.of(&name(case)).await.len() == 4).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    stage.topic.delete_group(earlier.group()).await;
}

/// docs/start.md: `start` counts only where neither database nor group has history; the database goes
/// before the group.
#[tokio::test]
async fn the_table_of_starts_is_true() {
    let stage = Stage::set("starts", 1).await;
    stage.count("a", 1, 4).await;
    let before = CASES.iter().filter(|case| case.0 == History::Database);
    join_all(before.map(|case| database_history(&stage, *case))).await;
    stage.count("a", 5, 8).await;
    for case in CASES.iter().filter(|case| case.0 == History::Group) {
        stage.topic.commit(config(&stage, *case).group(), 0, 2).await;
    }
    let running = join_all(CASES.iter().map(|case| start(&stage, *case))).await;
    // A partition of which nobody knows the start has no row.
    let known = "SELECT count(*) FROM inbox_partitions WHERE epoch > 0";
    eventually(SOON, "eight are known", async || stage.schema.number(known).await == 8).await;
    stage.count("a", 9, 9).await;
    for case in CASES {
        let Some(first) = first_event(case.0, case.1) else { continue };
        let expected: Vec<i64> = (first..=9).collect();
        let what = format!("{case:?} has {expected:?}");
        eventually(SOON, &what, async || stage.of(&name(case)).await.len() >= expected.len()).await;
        assert_eq!(stage.of(&name(case)).await, expected, "{case:?}");
    }
    for ended in join_all(running.into_iter().map(Running::stop)).await {
        assert_eq!(ended, Ended::Shutdown);
    }
    assert_eq!(stage.of(&name((History::Neither, Start::Error))).await, [] as [i64; 0]);
}

/// docs/start.md: with `start = "error"` a partition without history says that it waits for a decision,
/// and an offset committed for the group is one.
#[tokio::test]
async fn an_undecided_start_waits_for_a_person() {
    let stage = Stage::set("undecided", 1).await;
    stage.count("a", 1, 4).await;
    let group = unique("g");
    let more = [("INBOX_KAFKA__START", "error")];
    let mut process = worker(&stage, &group, &more);
    process.printed(SOON, "start_undecided").await;
    process.terminate();
    assert!(process.ended(SOON).await.success());
    assert_eq!((stage.effects().await, watermark(&stage, 0).await), (0, -1));
    stage.topic.commit(&group, 0, 1).await;
    let process = worker(&stage, &group, &more);
    eventually(SOON, "it goes on", async || stage.of("a").await == [2, 3, 4]).await;
    drop(process);
}

/// D3: what a consumer has read past is never asked of the log again: records removed behind it, while it
/// runs, change nothing.
#[tokio::test]
async fn retention_behind_a_running_consumer_changes_nothing() {
    let stage = Stage::set("trimmed", 1).await;
    stage.count("a", 1, 10).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "ten", async || watermark(&stage, 0).await == 10).await;
    stage.topic.delete_before(0, 10).await;
    stage.send(&[counted("a", 11)]).await;
    eventually(SOON, "the next", async || stage.effects().await == 11).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}
