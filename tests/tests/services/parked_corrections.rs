//! `skip` and `retire`: partitions that stand still until a person decides, and move when one has.

use inbox_consumer::Ended;
use tests::{
    Counter, SOON, Stage, counted,
    deploy::{Deploy, charged},
    eventually,
};

use super::parked_support::{acts, parked, said, typed};
use super::runtime_support::{Gate, on, up_to, watermark};

fn routes() -> inbox_consumer::Routes<sqlx::Postgres> {
    inbox_consumer::Routes::default().on("Counted", Counter)
}

async fn stands_still(stage: &Stage, reason: &str) {
    let told = format!("SELECT count(*) FROM inbox_partitions WHERE standstill LIKE '{reason}: %'");
    eventually(SOON, "it is told", async || stage.schema.number(&told).await == 1).await;
}

/// D3, E4: retention removed records before they were handled. `skip` says what is given up, and the
/// consumer that runs goes on without being started again.
#[tokio::test]
async fn a_log_that_begins_above_the_watermark_is_skipped() {
    let stage = Stage::set("skip", 1).await;
    stage.count("a", 1, 10).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "ten", async || stage.effects().await == 10).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    stage.count("a", 11, 20).await;
    stage.topic.delete_before(0, 15).await;
    let running = stage.start(routes()).await;
    stands_still(&stage, "log_starts_above").await;

    let skip = [
        "skip",
        "--topic",
        stage.topic.name(),
        "--partition",
        "0",
        "--to",
        "start",
        "--why",
        "gone",
    ];
    let (code, out, err) = typed(&stage, &skip).await;
    assert_eq!((code, out.as_str()), (Some(6), ""), "{err}");
    let told = "dry run: this would give up offsets 10 to 14: 5 offsets that the log has lost, and 0 offsets \
                that it still has; nothing was changed: add --yes to apply\n";
    assert_eq!(err, told);
    assert_eq!(watermark(&stage, 0).await, 10);
    let out = said(&stage, &[&skip[..], &["--yes"]].concat()).await;
    assert!(out.contains("continues at 15"), "{out}");
    eventually(SOON, "the rest", async || stage.effects().await == 15).await;
    stage.count("a", 21, 21).await;
    eventually(SOON, "the next", async || stage.of("a").await.contains(&21)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let expected: Vec<i64> = (1..=10).chain(16..=21).collect();
    assert_eq!(stage.of("a").await, expected);
    let audit = said(&stage, &["parked", "audit", "--what", "skip"]).await;
    assert!(audit.contains("anna@desk") && audit.contains("from 10 to 15: gone"), "{audit}");
}

/// E3: a topic that was deleted and re-created stands still; `retire` gives the old rows up, with the
/// events that are parked there only when that is said, and the new topic is read from its beginning.
#[tokio::test]
async fn a_topic_that_was_created_again_is_retired() {
    let stage = Stage::set("retire", 1).await;
    let deploy = Deploy::bad();
    stage.send(&[counted("a", 1), charged("b", 1), counted("a", 2)]).await;
    let running = parked(&stage, &deploy, 1).await;
    eventually(SOON, "two", async || stage.effects().await == 2).await;
    eventually(SOON, "the watermark", async || watermark(&stage, 0).await == 3).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    stage.topic.delete().await;
    stage.topic.create_again().await;
    let ids = |n: i64| {
        tests::Record::event(&format!("new-{n}"), "Counted", "a", &format!("{{\"n\":{n}}}"))
    };
    stage.send(&(3..=8).map(ids).collect::<Vec<_>>()).await;
    deploy.mend();
    let running = stage.start(deploy.routes()).await;
    stands_still(&stage, "topic_recreated").await;
    assert_eq!(stage.effects().await, 2);

    let retire = ["retire", "--topic", stage.topic.name(), "--why", "re-created", "--yes"];
    let (code, _, err) = typed(&stage, &retire).await;
    assert_eq!(code, Some(6), "{err}");
    for part in ["1 event of topic", "--discard-parked", "can never be released"] {
        assert!(err.contains(part), "{part:?} is missing: {err}");
    }
    let out = said(&stage, &[&retire[..], &["--discard-parked"]].concat()).await;
    assert!(out.starts_with("retired 1 partition of topic"), "{out}");
    eventually(SOON, "the new ones", async || stage.of("a").await == up_to(8)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((stage.parked("").await, stage.of("b").await.len()), (0, 0));
    assert_eq!((acts(&stage, "retire").await, acts(&stage, "discard").await), (1, 1));
    let (code, _, err) = typed(&stage, &retire).await;
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains("nothing to retire"), "{err}");
}

/// C9: a skip under an owner that works is refused; forced, it fences the owner's open transaction out,
/// and the owner takes the partition over again behind it.
#[tokio::test]
async fn a_forced_skip_fences_a_live_owner_out() {
    let stage = Stage::set("fenced", 1).await;
    let gate = Gate::closed();
    stage.send(&on(0, "slow", 1, 1)).await;
    stage.send(&on(0, "a", 1, 3)).await;
    let running = stage.start(gate.routes()).await;
    gate.reached(1).await;
    let skip = [
        "skip",
        "--topic",
        stage.topic.name(),
        "--partition",
        "0",
        "--to",
        "end",
        "--why",
        "stuck",
        "--yes",
    ];
    let (code, _, err) = typed(&stage, &skip).await;
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains("owns") && err.contains("--force"), "{err}");
    let out = said(&stage, &[&skip[..], &["--force"]].concat()).await;
    assert!(out.contains("continues at 4"), "{out}");
    gate.open();
    stage.send(&on(0, "a", 4, 6)).await;
    eventually(SOON, "the next ones", async || stage.of("a").await.ends_with(&[4, 5, 6])).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(
        stage.of("slow").await,
        [] as [i64; 0],
        "what was under way committed beside the skip"
    );
    assert!(watermark(&stage, 0).await >= 7);
}

/// A record at an offset that was settled, with an id that was never seen: the partition stands still by name. It
/// does not pass by itself, however often it is asked about, and a `skip` ends it without a restart.
#[tokio::test]
async fn a_reused_offset_is_skipped_without_a_restart() {
    let stage = Stage::set("reused", 1).await;
    stage.count("a", 1, 10).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "ten", async || stage.effects().await == 10).await;
    eventually(SOON, "the watermark", async || watermark(&stage, 0).await == 10).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    // As if other records had been settled there: their leader epoch is not known, their ids are not these.
    stage
        .schema
        .run("UPDATE inbox_partitions SET watermark = 5, watermark_leader_epoch = -1")
        .await;
    stage.schema.run("UPDATE inbox_lanes SET last_leader_epoch = -1").await;
    stage.schema.run("DELETE FROM inbox_events WHERE \"offset\" >= 5").await;
    let running = stage.start(routes()).await;
    stands_still(&stage, "reused").await;
    stage.count("a", 11, 12).await;
    let skip = ["skip", "--topic", stage.topic.name(), "--partition", "0", "--to", "10"];
    let skip = [&skip[..], &["--why", "cut", "--yes"]].concat();
    // The owner has to be silent for a while, or the command asks for --force.
    eventually(SOON, "the skip is taken", async || typed(&stage, &skip).await.0 == Some(0)).await;
    eventually(SOON, "the next ones", async || stage.of("a").await == up_to(12)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(
        stage
            .schema
            .number("SELECT count(*) FROM inbox_partitions WHERE standstill IS NOT NULL")
            .await,
        0
    );
}
