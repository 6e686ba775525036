//! Members of a group come, go, freeze and wake.

use inbox_consumer::{Ended, Routes, config::Protocol};
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
};
use tests::{
    Counter, Producer, Record, SOON, Stage, counted, eventually,
    soak::checker::{Expected, check},
};

use super::runtime_support::{two_beats, worker};

/// Sends `Counted` events of all aggregates, in many small steps.
async fn load(stage_topic: tests::Topic, expected: Expected) {
    let producer = Producer::new(stage_topic.bootstrap());
    for n in 1..=i64::try_from(expected.per_aggregate).unwrap() {
        let each = |aggregate: u64| counted(&aggregate.to_string(), n);
        let records: Vec<Record> = (0..expected.aggregates).map(each).collect();
        producer.send(stage_topic.name(), &records).await;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn come_and_go(protocol: Protocol) {
    const EXPECTED: Expected = Expected { aggregates: 12, per_aggregate: 300 };
    let mut stage = Stage::set("members", 6).await;
    stage.config.kafka.protocol = protocol;
    stage.config.batch.events_max = 20;
    let routes = || Routes::default().on("Counted", Counter);
    let loading = tokio::spawn(load(stage.topic.clone(), EXPECTED));
    let grown = async |by: i64| {
        let goal = (stage.effects().await + by).min(3600);
        eventually(SOON, "effects", async || stage.effects().await >= goal).await;
    };
    let first = stage.start(routes()).await;
    grown(200).await;
    let second = stage.start(routes()).await;
    grown(300).await;
    let third = stage.start(routes()).await;
    grown(300).await;
    assert_eq!(second.stop().await, Ended::Shutdown);
    grown(200).await;
    let second = stage.start(routes()).await;
    grown(300).await;
    // As a crash: its transactions end somewhere, nobody writes its last watermark.
    first.abort();
    grown(300).await;
    loading.await.unwrap();
    eventually(SOON, "all effects", async || stage.effects().await >= 3600).await;
    assert_eq!(third.stop().await, Ended::Shutdown);
    assert_eq!(second.stop().await, Ended::Shutdown);
    assert_eq!(check(stage.schema.pool(), EXPECTED).await.unwrap(), []);
    assert_eq!(stage.parked("").await, 0);
}

/// C10: partitions go from member to member and back under load; no work of an earlier assignment makes
/// a fresh event look settled, none is done twice, order stays (classic protocol).
#[tokio::test]
async fn members_come_and_go_with_the_classic_protocol() {
    come_and_go(Protocol::Classic).await;
}

/// C10: the same where the broker divides the partitions (KIP-848).
#[tokio::test]
async fn members_come_and_go_with_the_consumer_protocol() {
    come_and_go(Protocol::Consumer).await;
}

/// C9: a worker that was frozen within a transaction for longer than its session lives wakes as a zombie
/// and writes nothing any more; its successor has handled, or handles, everything once and in order.
#[tokio::test]
async fn a_zombie_writes_nothing() {
    let stage = Stage::set("zombies", 1).await;
    let slow = |aggregate: &str, n: i64| {
        let payload = format!("{{\"n\":{n},\"act\":\"sleep\"}}");
        Record::event(&format!("{aggregate}-{n}"), "Counted", aggregate, &payload)
    };
    stage.count("0", 1, 5).await;
    stage.send(&[slow("0", 6), slow("0", 7), slow("1", 1), slow("0", 8), slow("1", 2)]).await;
    stage.send(&(9..=30).map(|n| counted("0", n)).collect::<Vec<_>>()).await;
    stage.send(&(3..=30).map(|n| counted("1", n)).collect::<Vec<_>>()).await;
    let group = stage.config.group();
    let mut zombie = worker(&stage, group, &[("INBOX_BATCH__EVENTS_MAX", "5")]);
    let open = "SELECT count(*) FROM pg_locks WHERE relation = 'effects'::regclass \
                AND mode = 'RowExclusiveLock'";
    eventually(SOON, "effects", async || stage.effects().await >= 5).await;
    eventually(SOON, "a transaction is open", async || stage.schema.number(open).await > 0).await;
    zombie.pause();
    let epoch = "SELECT epoch FROM inbox_partitions";
    let before = stage.schema.number(epoch).await;
    let its = format!("SELECT count(*) FROM effects WHERE pid = {}", zombie.pid());
    let done = stage.schema.number(&its).await;

    let mut successor = worker(&stage, group, &[]);
    eventually(SOON, "it is taken over", async || stage.schema.number(epoch).await > before).await;
    assert!(stage.schema.number(open).await > 0, "the zombie's transaction is still open");
    zombie.resume();
    eventually(SOON, "all", async || stage.effects().await >= 60).await;
    assert_eq!(stage.schema.number(&its).await, done, "the zombie has written");
    successor.terminate();
    zombie.terminate();
    assert!(successor.ended(SOON).await.success());
    assert!(zombie.ended(SOON).await.success());
    let expected = Expected { aggregates: 2, per_aggregate: 30 };
    assert_eq!(check(stage.schema.pool(), expected).await.unwrap(), []);
}

/// The group refuses whoever has no assignor in common with its members: these are named, and what to change.
#[tokio::test(flavor = "multi_thread")]
async fn members_with_another_assignor_are_named() {
    let stage = Stage::set("assignor", 1).await;
    let (group, topic) = (stage.config.group().to_owned(), stage.topic.name().to_owned());
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", stage.topic.bootstrap()).set("group.id", &group);
    settings.set("client.id", "older-app").set("partition.assignment.strategy", "range");
    let older: BaseConsumer = settings.create().unwrap();
    older.subscribe(&[&topic]).unwrap();
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let polls = std::thread::spawn(move || {
        while left.try_recv().is_err() {
            drop(older.poll(std::time::Duration::from_millis(100)));
        }
    });
    let asks: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", stage.topic.bootstrap()).create().unwrap();
    let is_in = async || {
        let found = tokio::task::block_in_place(|| asks.fetch_group_list(Some(&group), SOON));
        found.unwrap().groups().iter().any(|found| found.state() == "Stable")
    };
    eventually(SOON, "the older one is in it", is_in).await;
    let mut ours = worker(&stage, &group, &[]);
    ours.printed(SOON, "the group assigns with `range`").await;
    ours.printed(SOON, "older-app at ").await;
    leave.send(()).unwrap();
    polls.join().unwrap();
    ours.terminate();
    ours.ended(SOON).await;
}

/// C18: a handler that does not answer for longer than the session lives does not cost the membership:
/// it is not the handlers' threads that poll.
#[tokio::test]
async fn a_slow_handler_does_not_cost_the_membership() {
    let mut stage = Stage::set("patient", 2).await;
    stage.config.kafka.session_timeout = std::time::Duration::from_millis(1500);
    stage.config.limits.drain_deadline = std::time::Duration::from_millis(300);
    let gate = super::runtime_support::Gate::closed();
    let running = stage.start(gate.routes()).await;
    stage.send(&[counted("slow", 1).partition(0)]).await;
    gate.reached(1).await;
    let epochs = "SELECT sum(epoch)::bigint FROM inbox_partitions";
    two_beats(&stage, 1).await;
    let before = stage.schema.number(epochs).await;
    two_beats(&stage, 1).await;
    two_beats(&stage, 1).await;
    assert_eq!(stage.schema.number(epochs).await, before, "nothing was taken over anew");
    gate.open();
    eventually(SOON, "the effect", async || stage.of("slow").await == [1]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((gate.entered(), stage.effects().await), (1, 7));
}
