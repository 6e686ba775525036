//! Completion out of order, blocked lanes, keys, panics, slow handlers, shutdown.

use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Event, Handler, HandlerResult, Routes, Tx};
use sqlx::Postgres;
use tests::{
    Count, Counter, OwnKafka, Producer, Record, SOON, Services, Stage, counted, effect, eventually,
    soak::checker::{Expected, check},
    unique,
};

use super::runtime_support::{Apart, Gate, on, two_beats, up_to, watermark, worker};

/// C1: events that overtake a slow one in other lanes commit, but watermark and group stay at the slow
/// one, and after a crash it is not lost.
#[tokio::test]
async fn what_overtakes_a_slow_event_does_not_move_the_watermark() {
    let mut stage = Stage::set("overtaken", 2).await;
    stage.config.lanes.count = 256;
    let gate = Gate::closed();
    let crashing = Apart::start(&stage.config, gate.routes()).await;
    stage.send(&on(0, "a", 1, 5)).await;
    eventually(SOON, "the first effects", async || stage.effects().await == 5).await;
    stage.send(&on(0, "slow", 1, 1)).await;
    gate.reached(1).await;
    stage.send(&on(0, "b", 1, 6)).await;
    eventually(SOON, "the others overtake", async || stage.effects().await == 11).await;
    two_beats(&stage, 1).await;
    assert_eq!(watermark(&stage, 0).await, 5);
    let committed = async || stage.topic.committed(stage.config.group()).await[0] == Some(5);
    eventually(SOON, "the group's offset follows", committed).await;
    crashing.crash();

    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the slow one", async || stage.of("slow").await == [1]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((stage.of("a").await, stage.of("b").await), (up_to(5), up_to(6)));
    assert_eq!(watermark(&stage, 0).await, 12);
}

/// C3: behind one blocked lane a partition is read only up to its byte limit, while other partitions go
/// on; when the lane moves, everything follows.
#[tokio::test]
async fn a_blocked_lane_stops_the_reading_of_its_partition_only() {
    let mut stage = Stage::set("blocked", 2).await;
    stage.config.limits.partition_bytes_max = 64 * 1024;
    stage.config.lanes.count = 256;
    let gate = Gate::closed();
    let running = stage.start(gate.routes()).await;
    stage.send(&on(0, "slow", 1, 3000)).await;
    gate.reached(1).await;
    // By then it is paused: one fetch may bring more than the limit.
    two_beats(&stage, 1).await;
    stage.send(&on(0, "last", 1, 1)).await;
    two_beats(&stage, 1).await;
    assert_eq!(stage.of("last").await, [] as [i64; 0], "nothing is read beyond the limit");
    gate.open();
    eventually(SOON, "the end", async || stage.of("last").await == [1]).await;
    eventually(SOON, "all", async || stage.effects().await == 3005).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.of("slow").await, up_to(3000));
}

/// C4: a null key asks for no order, one key on two topics names two aggregates, and a key that is no
/// name is parked; nothing spins, nothing is left behind.
#[tokio::test]
async fn every_kind_of_key_is_settled() {
    let mut stage = Stage::set("keys", 2).await;
    let other = Services::from_env().topic("keys", 1).await;
    stage.config.kafka.topics.push(other.name().to_owned());
    stage.count("a", 1, 20).await;
    let there: Vec<Record> = (101..=120).map(|n| counted("a", n)).collect();
    Producer::new(other.bootstrap()).send(other.name(), &there).await;
    let bare = |n: i64| {
        let record = Record::default().header("event_id", format!("bare-{n}"));
        record.header("event_type", "Counted").payload(format!("{{\"n\":{n}}}"))
    };
    let keyless = |n: i64| bare(n).partition(i32::try_from(n % 2).unwrap());
    stage.send(&(1..=20).map(keyless).collect::<Vec<_>>()).await;
    let odd = [bare(31).key(""), bare(32).key([0xff, 0xfe]), bare(33).key([0xff, 0xfe])];
    stage.send(&odd).await;

    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let settled = async || stage.effects().await + stage.parked("").await == 63;
    eventually(SOON, "every record is settled", settled).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let (here, elsewhere): (Vec<i64>, Vec<i64>) =
        stage.of("a").await.into_iter().partition(|n| *n < 100);
    assert_eq!(here, up_to(20));
    assert_eq!(elsewhere, (101..=120).collect::<Vec<i64>>());
    let alone = "SELECT count(*) FROM effects WHERE aggregate LIKE '@%'";
    assert_eq!(stage.schema.number(alone).await, 20);
    let named = "SELECT count(DISTINCT event_id) FROM effects";
    assert_eq!(stage.schema.number(named).await, 60);
    let sum = "SELECT sum(watermark)::bigint FROM inbox_partitions";
    assert_eq!(stage.schema.number(sum).await, 63);
}

/// Panics before its first statement, behind it, or always, as the aggregate's name tells.
struct Panicking;

impl Handler<Postgres> for Panicking {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let (name, first) = (event.aggregate().aggregate_id(), event.attempt() == 1);
        assert!(!(first && name == "early"), "panics early");
        effect(event, tx).await?;
        assert!(!(first && name == "late"), "panics late");
        tokio::task::yield_now().await;
        assert!(name != "ever", "panics ever");
        Ok(())
    }
}

/// C8: a panic at any point is a failed attempt: what it wrote is rolled back, it is tried again, and
/// parked in the end; the lane goes on.
#[tokio::test]
async fn a_panic_is_a_failed_attempt() {
    let stage = Stage::set("panics", 1).await;
    for aggregate in ["early", "late", "calm"] {
        stage.count(aggregate, 1, 3).await;
    }
    stage.count("ever", 1, 1).await;
    let running = stage.start(Routes::default().on("Counted", Panicking)).await;
    let settled = async || (stage.effects().await, stage.parked("exhausted").await) == (9, 1);
    eventually(SOON, "nine effects, one parked", settled).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    for aggregate in ["early", "late", "calm"] {
        assert_eq!(stage.of(aggregate).await, up_to(3));
    }
}

/// C16: a handler that outlasts the drain deadline holds its partition back no longer than that: the
/// other member takes it over, and what the old one still does is fenced.
#[tokio::test]
async fn a_slow_handler_is_left_behind_at_the_drain_deadline() {
    let mut stage = Stage::set("drains", 2).await;
    stage.config.limits.drain_deadline = Duration::from_millis(300);
    stage.config.retry.attempt_deadline = Duration::from_mins(10);
    stage.config.database.idle_timeout = Duration::from_mins(11);
    stage.send(&[counted("slow0", 1).partition(0), counted("slow1", 1).partition(1)]).await;
    let gate = Gate::closed();
    let old = stage.start(gate.routes()).await;
    gate.reached(2).await;
    let new = stage.start(Routes::default().on("Counted", Counter)).await;
    let owners = "SELECT count(DISTINCT owner_incarnation) FROM inbox_partitions";
    let shared = async || stage.schema.number(owners).await == 2;
    eventually(SOON, "both members own a partition", shared).await;
    gate.open();
    eventually(SOON, "both effects", async || stage.effects().await == 2).await;
    assert_eq!(old.stop().await, Ended::Shutdown);
    stage.send(&[counted("slow0", 2).partition(0), counted("slow1", 2).partition(1)]).await;
    eventually(SOON, "the next effects", async || stage.effects().await == 4).await;
    assert_eq!(new.stop().await, Ended::Shutdown);
    assert_eq!((stage.of("slow0").await, stage.of("slow1").await), (up_to(2), up_to(2)));
}

/// How a life of the worker ends: SIGTERM, SIGKILL, or one so long after the other.
#[derive(Clone, Copy)]
enum End {
    Term,
    Kill,
    TermThenKill(u64),
}

/// C17: whatever the moment of SIGTERM and SIGKILL, before, in and after the shutdown, the next process
/// goes on where the database stands.
#[tokio::test]
async fn ended_at_any_moment_nothing_is_lost_or_doubled() {
    const EXPECTED: Expected = Expected { aggregates: 6, per_aggregate: 250 };
    let stage = Stage::set("ended", 3).await;
    for aggregate in 0..EXPECTED.aggregates {
        stage.count(&aggregate.to_string(), 1, 250).await;
    }
    let ends = [
        End::Kill,
        End::TermThenKill(0),
        End::Term,
        End::TermThenKill(10),
        End::TermThenKill(60),
        End::Kill,
    ];
    for end in ends {
        let before = stage.effects().await;
        // A group of its own: a killed member would hold the partitions until its session ends.
        let mut life = worker(&stage, &unique("g"), &[("INBOX_BATCH__EVENTS_MAX", "4")]);
        let moves = async || stage.effects().await > before + 20 || before > 1400;
        eventually(SOON, "the worker works", moves).await;
        match end {
            End::Kill => life.kill(),
            End::Term => {
                life.terminate();
                assert!(life.ended(SOON).await.success());
            }
            End::TermThenKill(millis) => {
                life.terminate();
                tokio::time::sleep(Duration::from_millis(millis)).await;
                life.kill();
            }
        }
    }
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the rest", async || stage.effects().await >= 1500).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(check(stage.schema.pool(), EXPECTED).await.unwrap(), []);
}

/// The longest time that the runtime of this test did not come to a task that was ready.
async fn longest_stall(while_running: impl Future<Output = ()>) -> Duration {
    let mut worst = Duration::ZERO;
    let mut done = std::pin::pin!(while_running);
    loop {
        let before = Instant::now();
        tokio::select! {
            () = &mut done => return worst,
            () = tokio::time::sleep(Duration::from_millis(5)) => worst = worst.max(before.elapsed()),
        }
    }
}

/// C12: on a runtime with one thread, consumers that join, work and leave never block it.
#[tokio::test]
async fn rebalances_do_not_block_the_runtime() {
    let stage = Stage::set("unblocked", 4).await;
    let routes = || Routes::default().on("Counted", Counter);
    let worst = longest_stall(async {
        let mut running = stage.start(routes()).await;
        for round in 0..3_i64 {
            let next = stage.start(routes()).await;
            for aggregate in ["a", "b", "c", "d"] {
                stage.count(aggregate, round * 50 + 1, round * 50 + 50).await;
            }
            assert_eq!(running.stop().await, Ended::Shutdown);
            running = next;
        }
        eventually(SOON, "all", async || stage.effects().await == 600).await;
        assert_eq!(running.stop().await, Ended::Shutdown);
    })
    .await;
    assert!(worst < Duration::from_secs(2), "{worst:?}");
    for aggregate in ["a", "b", "c", "d"] {
        assert_eq!(stage.of(aggregate).await, up_to(150));
    }
}

/// C12, C13: a broker that answers nothing while the client closes holds up neither the process, beyond
/// its deadlines, nor the runtime; the next process finds everything in order.
#[tokio::test]
async fn a_frozen_broker_does_not_hold_up_the_end() {
    let kafka = OwnKafka::start().await;
    let schema = Services::from_env().schema().await;
    let mut stage = Stage::with(kafka.topic("frozen", 2).await, schema).await;
    stage.config.limits.close_deadline = Duration::from_secs(2);
    stage.send(&[on(0, "0", 1, 20), on(1, "1", 1, 20)].concat()).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let more = [("INBOX_LIMITS__CLOSE_DEADLINE", "2s")];
    let mut process = worker(&stage, stage.config.group(), &more);
    process.printed(SOON, "partitions acquired").await;
    eventually(SOON, "all", async || stage.effects().await == 40).await;
    kafka.pause();
    let began = Instant::now();
    let worst = longest_stall(async {
        process.terminate();
        let ended = running.stop().await;
        assert!(matches!(ended, Ended::Shutdown | Ended::ShutdownCutShort(_)), "{ended}");
        assert!(process.ended(SOON).await.success());
    })
    .await;
    let took = began.elapsed();
    kafka.resume();
    assert!(took < Duration::from_secs(8), "the deadlines are 3 s together: {took:?}");
    assert!(worst < Duration::from_secs(2), "{worst:?}");

    stage.config.kafka.group = Some(unique("g"));
    stage.send(&[on(0, "0", 21, 30), on(1, "1", 21, 30)].concat()).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the rest", async || stage.effects().await >= 60).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let expected = Expected { aggregates: 2, per_aggregate: 30 };
    assert_eq!(check(stage.schema.pool(), expected).await.unwrap(), []);
}
