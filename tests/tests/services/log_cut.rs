//! A log that lost its acknowledged end and was written again while nobody read it.

use inbox_consumer::{Ended, Routes};
use sqlx::Postgres;
use tests::{
    Counter, Ending, OwnKafka, Producer, Running, SOON, Services, Stage, counted, eventually,
};

use super::parked_support::said;
use super::runtime_support::{up_to, watermark};

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// How the producers write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writes {
    Plainly,
    /// Five events to a transaction: a marker at every sixth offset.
    InTransactions,
}

/// A broker of the test's own, and a stage on it.
async fn stage() -> (OwnKafka, Stage) {
    let kafka = OwnKafka::start().await;
    let stage = on(&kafka).await;
    (kafka, stage)
}

async fn on(kafka: &OwnKafka) -> Stage {
    Stage::with(kafka.topic("cut", 1).await, Services::from_env().schema().await).await
}

/// Sends events `from..=to` of the aggregate, a batch for each event or a transaction for every five.
async fn send(stage: &Stage, writes: Writes, aggregate: &str, (from, to): (i64, i64)) {
    let (bootstrap, name) = (stage.topic.bootstrap(), stage.topic.name());
    // Of its own: what was cut away is missing in an older one's sequence.
    let producer = Producer::new(bootstrap);
    for n in (from..=to).step_by(if writes == Writes::Plainly { 1 } else { 5 }) {
        match writes {
            Writes::Plainly => {
                producer.send(name, &[counted(aggregate, n)]).await;
            }
            Writes::InTransactions => {
                let five: Vec<_> = (n..n + 5).map(|n| counted(aggregate, n)).collect();
                Producer::send_in_transaction(bootstrap, name, &five, Ending::Commit).await;
            }
        }
    }
}

/// Ten events are settled, and the consumer has stopped behind them, at this watermark.
async fn settled(stage: &Stage, writes: Writes) -> i64 {
    send(stage, writes, "old", (1, 10)).await;
    let (_, end) = stage.topic.offsets(0).await;
    let running = stage.start(routes()).await;
    let committed = async || stage.topic.committed(stage.config.group()).await == [Some(end)];
    eventually(SOON, "all is settled and committed", committed).await;
    stop(running).await;
    assert_eq!((stage.of("old").await, watermark(stage, 0).await), (up_to(10), end));
    end
}

/// The broker loses what it had acknowledged from `offset` on.
async fn cut(kafka: &mut OwnKafka, stage: &Stage, offset: i64) {
    kafka.kill();
    kafka.cut(&stage.topic, 0, offset);
    kafka.start_again().await;
    stage.topic.await_leaders(1).await;
    let ends = async || stage.topic.offsets(0).await.1 == offset;
    eventually(SOON, "the log ends where it was cut", ends).await;
}

async fn stop(running: Running) {
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Why the partition stands still, as its process says.
fn standstill(running: &Running) -> Option<&'static str> {
    let partitions = running.readings.partitions();
    partitions.first()?.standstill.as_ref().map(|reason| reason.name)
}

/// Every one of fifteen new events is handled, or the partition stands still by name, and a person's word
/// lets it go on.
async fn nothing_is_passed_over(stage: &Stage) {
    let running = stage.start(routes()).await;
    // An event behind them: when it is there, they had their chance.
    send(stage, Writes::Plainly, "beat", (1, 1)).await;
    let beat = async || stage.of("beat").await == [1];
    let cut = || matches!(standstill(&running), Some("offset_gone" | "rewritten"));
    eventually(SOON, "something is handled, or a standstill is named", async || {
        beat().await || cut()
    })
    .await;
    if cut() {
        assert_eq!(stage.of("new").await, [] as [i64; 0], "some were handled, others passed over");
        stands_in_the_database(stage, "offset_gone").await;
        skip(stage, "end").await;
        send(stage, Writes::Plainly, "later", (1, 3)).await;
        let later = async || stage.of("later").await == up_to(3);
        eventually(SOON, "it goes on behind what was given up", later).await;
    } else {
        assert_eq!(stage.of("new").await, up_to(15), "events were passed over");
    }
    stop(running).await;
    assert_eq!(stage.of("old").await, up_to(10));
}

async fn stands_in_the_database(stage: &Stage, name: &str) {
    let told = format!("SELECT count(*) FROM inbox_partitions WHERE standstill LIKE '{name}: %'");
    eventually(SOON, "it is told", async || stage.schema.number(&told).await == 1).await;
}

async fn skip(stage: &Stage, to: &str) -> String {
    let topic = stage.topic.name();
    let skip = [
        "skip",
        "--topic",
        topic,
        "--partition",
        "0",
        "--to",
        to,
        "--why",
        "cut",
        "--yes",
        "--force",
    ];
    said(stage, &skip).await
}

/// Finding 23: behind a transaction marker the watermark's own leader epoch is not known.
#[tokio::test]
async fn a_log_rewritten_behind_transactions_is_noticed() {
    let (mut kafka, stage) = stage().await;
    assert_eq!(settled(&stage, Writes::InTransactions).await, 12);
    cut(&mut kafka, &stage, 6).await;
    send(&stage, Writes::InTransactions, "new", (1, 15)).await;
    assert_eq!(stage.topic.offsets(0).await.1, 24);
    nothing_is_passed_over(&stage).await;
}

/// Finding 23: without transactions.
#[tokio::test]
async fn a_log_rewritten_without_transactions_is_noticed() {
    let (mut kafka, stage) = stage().await;
    assert_eq!(settled(&stage, Writes::Plainly).await, 10);
    cut(&mut kafka, &stage, 5).await;
    send(&stage, Writes::Plainly, "new", (1, 15)).await;
    nothing_is_passed_over(&stage).await;
}

/// Finding 23: the group's offset lies below the watermark, and above the cut.
#[tokio::test]
async fn a_log_rewritten_below_the_groups_offset_is_noticed() {
    let (mut kafka, stage) = stage().await;
    assert_eq!(settled(&stage, Writes::Plainly).await, 10);
    stage.topic.commit(stage.config.group(), 0, 8).await;
    cut(&mut kafka, &stage, 5).await;
    send(&stage, Writes::Plainly, "new", (1, 15)).await;
    nothing_is_passed_over(&stage).await;
}

/// Finding 23: a log that was seen to end below the watermark is not the same one because it has grown.
#[tokio::test]
async fn a_log_that_ended_below_the_watermark_and_grew_is_noticed() {
    let (mut kafka, stage) = stage().await;
    assert_eq!(settled(&stage, Writes::InTransactions).await, 12);
    cut(&mut kafka, &stage, 6).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "the end is told", async || standstill(&running) == Some("log_ends_below"))
        .await;
    send(&stage, Writes::InTransactions, "new", (1, 15)).await;
    send(&stage, Writes::Plainly, "beat", (1, 1)).await;
    let named = async || {
        matches!(standstill(&running), Some("offset_gone" | "rewritten"))
            || stage.of("beat").await == [1]
    };
    eventually(SOON, "a standstill is named", named).await;
    stop(running).await;
    nothing_is_passed_over(&stage).await;
}

/// Finding 23: with no last record known (a row of a build before the columns), a log that was seen to end
/// below the watermark stays suspect when it has grown.
#[tokio::test]
async fn a_log_that_ended_below_an_older_builds_watermark_waits_for_a_person() {
    let (mut kafka, stage) = stage().await;
    assert_eq!(settled(&stage, Writes::InTransactions).await, 12);
    stage
        .schema
        .run("UPDATE inbox_partitions SET record_next = -1, record_leader_epoch = -1")
        .await;
    cut(&mut kafka, &stage, 6).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "the end is told", async || standstill(&running) == Some("log_ends_below"))
        .await;
    // It is remembered by the database, not by the process.
    stop(running).await;
    send(&stage, Writes::InTransactions, "new", (1, 15)).await;
    let running = stage.start(routes()).await;
    let ended = async || standstill(&running) == Some("log_ended_below");
    eventually(SOON, "a person is wanted", ended).await;
    stands_in_the_database(&stage, "log_ended_below").await;
    assert_eq!(stage.of("new").await, [] as [i64; 0]);
    let out = skip(&stage, "12").await;
    assert!(out.contains("continues at 12"), "{out}");
    let rest: Vec<i64> = (6..=15).collect();
    eventually(SOON, "what lies from there on", async || stage.of("new").await == rest).await;
    stop(running).await;
}

/// A broker that comes back with all that it had is no cut, whatever its leader epoch: behind transactions,
/// with the group's offset below the watermark, and when retention has taken everything.
#[tokio::test]
async fn a_log_that_is_whole_goes_on() {
    let mut kafka = OwnKafka::start().await;
    let mut stages = Vec::new();
    for (writes, end) in [(Writes::InTransactions, 12), (Writes::Plainly, 10)] {
        for (group, delete_before) in [(end, 0), (3, 0), (end, end), (3, 5), (end, end - 1)] {
            let stage = on(&kafka).await;
            assert_eq!(settled(&stage, writes).await, end);
            stage.topic.commit(stage.config.group(), 0, group).await;
            if delete_before > 0 {
                stage.topic.delete_before(0, delete_before).await;
            }
            stages.push((stage, format!("{writes:?} {group} {delete_before}")));
        }
    }
    kafka.kill();
    kafka.start_again().await;
    for (stage, case) in stages {
        stage.topic.await_leaders(1).await;
        let running = stage.start(routes()).await;
        send(&stage, Writes::InTransactions, "new", (1, 15)).await;
        eventually(SOON, &case, async || stage.of("new").await == up_to(15)).await;
        stop(running).await;
        assert_eq!(stage.of("old").await, up_to(10), "{case}");
    }
}
