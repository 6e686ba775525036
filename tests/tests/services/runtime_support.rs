//! What the tests of runtime, group and log share: a handler that waits, a consumer that crashes, a
//! worker process, and a beat.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use inbox_consumer::{Consumer, Event, Handler, HandlerResult, Routes, Tx, config::Config};
use sqlx::Postgres;
use tests::{Count, SOON, Stage, Worker, counted, effect, eventually, unique};
use tokio::{runtime::Runtime, sync::Semaphore};

use crate::programs::WORKER;

/// Handles as `Counter` does, but events of aggregates whose name begins with `slow` wait for
/// [`Gate::open`].
#[derive(Clone, Debug)]
pub struct Gate {
    permits: Arc<Semaphore>,
    entered: Arc<AtomicUsize>,
}

impl Gate {
    pub fn closed() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), entered: Arc::default() }
    }

    pub fn routes(&self) -> Routes<Postgres> {
        Routes::default().on("Counted", self.clone())
    }

    /// How many calls have come to the gate.
    pub fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    pub async fn reached(&self, calls: usize) {
        eventually(SOON, "calls wait at the gate", async || self.entered() >= calls).await;
    }

    pub fn open(&self) {
        self.permits.add_permits(1_000_000);
    }
}

impl Handler<Postgres> for Gate {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, tx).await?;
        if event.aggregate().aggregate_id().starts_with("slow") {
            self.entered.fetch_add(1, Ordering::SeqCst);
            drop(self.permits.acquire().await);
        }
        Ok(())
    }
}

/// A consumer on a runtime of its own, which can end at once with all its tasks and connections.
pub struct Apart {
    runtime: Option<Runtime>,
}

impl Apart {
    pub async fn start(config: &Config, routes: Routes<Postgres>) -> Self {
        let consumer = Consumer::builder(config.clone(), routes).build().await.unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(consumer.run(std::future::pending()));
        Self { runtime: Some(runtime) }
    }

    /// Nothing of it goes on: open transactions are rolled back by the database.
    pub fn crash(self) {}
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The worker as a process, consuming for a stage, with further variables such as
/// `("INBOX_BATCH__EVENTS_MAX", "5")`.
pub fn worker(stage: &Stage, group: &str, more: &[(&str, &str)]) -> Worker {
    let mut command = WORKER.command();
    command
        .arg("run")
        .env("INBOX_CONSUMER__NAME", &stage.config.consumer.name)
        .env("INBOX_KAFKA__BOOTSTRAP", &stage.config.kafka.bootstrap)
        .env("INBOX_KAFKA__TOPICS", stage.config.kafka.topics.join(","))
        .env("INBOX_KAFKA__GROUP", group)
        .env("INBOX_KAFKA__SESSION_TIMEOUT", "2s")
        .env("INBOX_LIMITS__DRAIN_DEADLINE", "500ms")
        .env("INBOX_DATABASE__URL", stage.schema.url())
        .env("INBOX_HTTP__LISTEN", "off")
        .env("INBOX_LOG__FORMAT", "human")
        .env("INBOX_PARK__RELEASES_MAX", "0")
        .envs(more.iter().copied());
    Worker::spawn(&mut command)
}

/// The watermark of a partition; -1 while the database does not know it.
pub async fn watermark(stage: &Stage, partition: i32) -> i64 {
    let query = "SELECT coalesce(max(watermark), -1) FROM inbox_partitions WHERE partition =";
    stage.schema.number(&format!("{query} {partition}")).await
}

/// Sends events to a partition where nothing else happens until its watermark has moved twice: by
/// then every other partition has come to write its own at least once.
pub async fn two_beats(stage: &Stage, partition: i32) {
    for _ in 0..2 {
        let beat = counted(&unique("beat"), 1).partition(partition);
        let sent = stage.send(&[beat]).await[0].1;
        let passed = async || watermark(stage, partition).await > sent;
        eventually(SOON, "the watermark of the beat moves", passed).await;
    }
}

/// `Counted` events `from..=to` of an aggregate, on a partition.
pub fn on(partition: i32, aggregate: &str, from: i64, to: i64) -> Vec<tests::Record> {
    (from..=to).map(|n| counted(aggregate, n).partition(partition)).collect()
}

/// The numbers in sequence.
pub fn up_to(last: i64) -> Vec<i64> {
    (1..=last).collect()
}
