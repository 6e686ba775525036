//! Partitions move while handlers are slow (finding 30): what is given up is ended, and nobody is blamed.

use std::{
    path::Path,
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
    soak::checker::{Expected, check},
};

use super::runtime_support::{Gate, on};

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
        tokio::time::sleep(self.takes).await;
        Ok(())
    }
}

/// Finding 30: twenty events of a second in one transaction, and a second process joins. What the first one
/// gave up held their ids for as long as its handlers went on; the second one's lock time-outs were counted as
/// the events' own, and parked them.
#[tokio::test]
async fn a_second_process_joins_slow_handlers_and_parks_nothing() {
    let mut stage = Stage::set("joins", 2).await;
    stage.config.limits.drain_deadline = Duration::from_millis(500);
    stage.config.database.lock_timeout = Duration::from_millis(200);
    let slow = Slow::new(Duration::from_secs(1));
    for partition in 0..2 {
        stage.send(&on(partition, &partition.to_string(), 1, 20)).await;
    }
    let open = "SELECT count(*) FROM pg_locks WHERE relation = 'effects'::regclass \
                AND mode = 'RowExclusiveLock'";
    let first = stage.start(slow.routes()).await;
    eventually(SOON, "both are at work", async || stage.schema.number(open).await == 2).await;
    let epochs = "SELECT max(epoch) FROM inbox_partitions";
    let before = stage.schema.number(epochs).await;
    let second = stage.start(slow.routes()).await;
    eventually(SOON, "one is taken over", async || stage.schema.number(epochs).await > before)
        .await;
    eventually(Duration::from_secs(90), "every event has its effect, or is parked", async || {
        stage.effects().await + stage.parked("").await >= 40
    })
    .await;
    assert_eq!(stage.parked("").await, 0, "an event was parked that no handler failed");
    assert_eq!(slow.attempt_max.load(Ordering::SeqCst), 1, "an attempt was spent");
    let expected = Expected { aggregates: 2, per_aggregate: 20 };
    assert_eq!(check(stage.schema.pool(), expected).await.unwrap(), []);
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
    eventually(SOON, "its effect", async || stage.effects().await == sent + 1).await;
    assert_eq!(slow.attempt_max.load(Ordering::SeqCst), 1, "an attempt was spent");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The short form of `cargo xtask deploy --rolling 10`: processes are restarted in turns while handlers take one
/// and five seconds; nothing is parked, every effect is there once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_park_nothing() {
    let size = Size { rounds: 2, processes: 2, aggregates: 20, partitions: 4 };
    let report = rolling(Path::new(env!("CARGO_BIN_EXE_worker")), size).await;
    assert_eq!(report.violations, [] as [String; 0], "{report:#?}");
    assert_eq!((report.parked, report.failures), (0, 0), "{report:#?}");
}
