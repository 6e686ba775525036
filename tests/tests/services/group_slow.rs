//! Partitions move while handlers are slow (finding 30): what is given up is ended, and nobody is blamed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use inbox_consumer::{Ended, Event, Handler, HandlerResult, Routes, Tx};
use sqlx::Postgres;
use tests::{
    Count, Record, SOON, Stage, effect, eventually,
    rolling::{Size, rolling},
};

use super::runtime_support::{Gate, on, up_to};
use crate::programs::WORKER;

/// Handles as `Counter` does, and takes its time; remembers the highest number of an attempt.
#[derive(Clone, Debug)]
struct Slow {
    takes: Duration,
    attempt_max: Arc<AtomicU32>,
}

impl Slow {
    fn new(takes: Duration) -> Self {
        Self { takes, attempt_max: Arc::default() }
    }

    fn routes(&self) -> Routes<Postgres> {
        Routes::default().on("Counted", self.clone())
    }
}

impl Handler<Postgres> for Slow {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        self.attempt_max.fetch_max(event.attempt(), Ordering::SeqCst);
        effect(event, tx).await?;
        if event.aggregate().aggregate_id().starts_with("slow") {
            tokio::time::sleep(self.takes).await;
        }
        Ok(())
    }
}

/// Finding 30: fifteen events of a second in one transaction of each partition, others beside them that commit,
/// and a second process joins. What the first one gave up held its ids for as long as its handlers went on; the
/// second one's lock time-outs were counted as the events' own, and parked them.
#[tokio::test]
async fn a_second_process_joins_slow_handlers_and_parks_nothing() {
    let mut stage = Stage::set("joins", 4).await;
    stage.config.limits.drain_deadline = Duration::from_millis(500);
    stage.config.database.lock_timeout = Duration::from_millis(100);
    let slow = Slow::new(Duration::from_secs(1));
    for partition in 0..4 {
        stage.send(&on(partition, &format!("slow{partition}"), 1, 15)).await;
    }
    let first = stage.start(slow.routes()).await;
    let open = "SELECT count(*) FROM pg_locks WHERE relation = 'effects'::regclass \
                AND mode = 'RowExclusiveLock'";
    eventually(SOON, "all are at work", async || stage.schema.number(open).await == 4).await;
    let second = stage.start(slow.routes()).await;
    let mut sent = 0;
    eventually(
        Duration::from_secs(90),
        "every slow event has its effect, or is parked",
        async || {
            sent += 1;
            let quick =
                (0..4).map(|partition| on(partition, &format!("quick{partition}"), sent, sent));
            stage.send(&quick.flatten().collect::<Vec<_>>()).await;
            let slow = "SELECT count(*) FROM effects WHERE aggregate LIKE 'slow%'";
            stage.schema.number(slow).await + stage.parked("").await >= 60
        },
    )
    .await;
    assert_eq!(stage.parked("").await, 0, "an event was parked that no handler failed");
    assert_eq!(slow.attempt_max.load(Ordering::SeqCst), 1, "an attempt was spent");
    let all = 60 + 4 * sent;
    eventually(SOON, "every effect", async || stage.effects().await >= all).await;
    for partition in 0..4 {
        assert_eq!(stage.of(&format!("slow{partition}")).await, up_to(15));
        assert_eq!(stage.of(&format!("quick{partition}")).await, up_to(sent));
    }
    for running in [first, second] {
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
}

/// `GivenUpAborted` (finding 30): a handler that goes on after its partition was taken away holds the event's id no
/// longer than the drain: its next owner need not wait for it.
#[tokio::test]
async fn what_is_given_up_lets_its_ids_go() {
    let mut stage = Stage::set("ids", 2).await;
    stage.config.retry.attempt_deadline = Duration::from_mins(5);
    stage.config.database.idle_timeout = Duration::from_mins(6);
    let gate = Gate::closed();
    stage.send(&[on(0, "slow0", 1, 1), on(1, "slow1", 1, 1)].concat()).await;
    let first = stage.start(gate.routes()).await;
    gate.reached(2).await;
    let second = stage.start(gate.routes()).await;
    gate.reached(3).await;
    gate.open();
    eventually(SOON, "both effects", async || stage.effects().await == 2).await;
    assert_eq!((gate.entered(), stage.parked("").await), (3, 0));
    for running in [first, second] {
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
}

/// `FaultsBeforeHandlersUncounted` (finding 30): whoever holds an event's id, for however long, and whatever
/// commits beside: the event is not to blame.
#[tokio::test]
async fn an_id_that_another_transaction_holds_spends_no_attempt() {
    let mut stage = Stage::set("held", 2).await;
    stage.config.database.lock_timeout = Duration::from_millis(100);
    let slow = Slow::new(Duration::ZERO);
    stage.send(&on(1, "1", 1, 1)).await;
    let running = stage.start(slow.routes()).await;
    eventually(SOON, "the first effect", async || stage.effects().await == 1).await;
    // Some other process has claimed the id, and is silent.
    let mut other = stage.schema.pool().begin().await.unwrap();
    let id = "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11";
    sqlx::query(
        "INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, \"offset\")
         SELECT consumer_ref, $1::uuid, decode(repeat('00', 16), 'hex'), partition_ref, 0 FROM inbox_partitions LIMIT 1",
    )
    .bind(id)
    .execute(&mut *other)
    .await
    .unwrap();
    stage.send(&[Record::event(id, "Counted", "0", "{\"n\":1}").partition(0)]).await;
    let mut sent = 1;
    eventually(SOON, "its claim meets the other again and again", async || {
        sent += 1;
        stage.send(&on(1, "1", sent, sent)).await;
        running.counters.read().conflicts > 40 || stage.parked("").await > 0
    })
    .await;
    eventually(SOON, "the others", async || stage.effects().await == sent).await;
    assert_eq!(stage.parked("").await, 0, "an event was parked that no handler has seen");
    other.rollback().await.unwrap();
    eventually(SOON, "its effect, or it is parked", async || {
        stage.effects().await + stage.parked("").await > sent
    })
    .await;
    assert_eq!(stage.parked("").await, 0, "an event was parked that no handler has seen");
    assert_eq!(slow.attempt_max.load(Ordering::SeqCst), 1, "an attempt was spent");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The short form of `cargo xtask deploy --rolling 10`: processes are restarted in turns while handlers take one
/// and five seconds; nothing is parked, every effect is there once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_park_nothing() {
    let size = Size { rounds: 2, processes: 2, aggregates: 20, partitions: 4 };
    let report = rolling(&WORKER, size).await;
    assert_eq!(report.violations, [] as [String; 0], "{report:#?}");
    assert_eq!((report.parked, report.failures), (0, 0), "{report:#?}");
}
