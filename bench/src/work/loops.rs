//! The loops that people write: rdkafka's stream, sqlx, an inbox table, a transaction per event. Offsets are
//! stored after the commit, and committed to Kafka every 5 seconds.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::message::{Message as _, OwnedMessage};
use sqlx::PgPool;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use xtask::failure::{Explain as _, Failure, Outcome};

use super::ending::Ending;
use super::kafka::passing;
use super::record::Event;
use super::{Times, UPSERT};
use crate::candidate::Candidate;
use crate::options::Order;
use crate::topic::settings;

/// What waits for a partition's task. Shorter queues let one partition starve the others.
const QUEUE: usize = 5_000;
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(5);

const CLAIM: &str = "INSERT INTO inbox (event_id) VALUES ($1) ON CONFLICT DO NOTHING";

/// What the tasks share.
struct Shared {
    consumer: StreamConsumer,
    pool: PgPool,
    settled: AtomicU64,
}

pub(super) async fn run(order: Order) -> Outcome<Times> {
    let doing = || format!("cannot consume {}", order.topic);
    let consumer: StreamConsumer = settings(&order.kafka)
        .set("group.id", &order.group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "true")
        .set("auto.commit.interval.ms", "5000")
        .set("enable.auto.offset.store", "false")
        .create()
        .explain(doing)?;
    consumer.subscribe(&[&order.topic]).explain(doing)?;
    let pool = PgPool::connect(&order.database).await.explain(|| "PostgreSQL".to_owned())?;
    let shared = Arc::new(Shared { consumer, pool, settled: AtomicU64::new(0) });
    let (began, ending) = (SystemTime::now(), Ending::of(&order));
    if order.candidate == Candidate::Loop {
        one_by_one(&shared, &ending).await?;
    } else {
        by_partition(&shared, &ending).await?;
    }
    Ok(Times { began, ended: SystemTime::now() })
}

async fn one_by_one(shared: &Shared, ending: &Ending) -> Outcome {
    while !ending.reached(shared.settled.load(Relaxed)) {
        let received = tokio::select! {
            received = shared.consumer.recv() => received,
            () = tokio::time::sleep(LOOK) => continue,
        };
        match received {
            Err(error) if passing(&error) => {}
            received => {
                let message = received.explain(|| "Kafka".to_owned())?.detach();
                shared.settle(&message).await?;
            }
        }
    }
    Ok(())
}

async fn by_partition(shared: &Arc<Shared>, ending: &Ending) -> Outcome {
    let mut tasks = JoinSet::new();
    let mut queues: HashMap<i32, mpsc::Sender<OwnedMessage>> = HashMap::new();
    loop {
        let received = tokio::select! {
            received = shared.consumer.recv() => received,
            Some(ended) = tasks.join_next() => {
                return ended.explain(|| "a partition's task".to_owned())?;
            }
            () = tokio::time::sleep(LOOK) => {
                if ending.reached(shared.settled.load(Relaxed)) {
                    return Ok(());
                }
                continue;
            }
        };
        let message = match received {
            Err(error) if passing(&error) => continue,
            received => received.explain(|| "Kafka".to_owned())?.detach(),
        };
        let queue = queues.entry(message.partition()).or_insert_with(|| {
            let (queue, waiting) = mpsc::channel(QUEUE);
            tasks.spawn(partition(Arc::clone(shared), waiting));
            queue
        });
        if queue.send(message).await.is_err() {
            return first_failure(&mut tasks).await;
        }
    }
}

async fn partition(shared: Arc<Shared>, mut waiting: mpsc::Receiver<OwnedMessage>) -> Outcome {
    while let Some(message) = waiting.recv().await {
        shared.settle(&message).await?;
    }
    Ok(())
}

async fn first_failure(tasks: &mut JoinSet<Outcome>) -> Outcome {
    while let Some(ended) = tasks.join_next().await {
        ended.explain(|| "a partition's task".to_owned())??;
    }
    Err(Failure("a partition's task ended".to_owned()))
}

impl Shared {
    async fn settle(&self, message: &OwnedMessage) -> Outcome {
        let event = Event::read(message)?;
        self.effect(&event).await.explain(|| "an effect".to_owned())?;
        #[expect(clippy::disallowed_methods, reason = "this is what people write")]
        let stored =
            self.consumer.store_offset(message.topic(), message.partition(), message.offset());
        stored.explain(|| "an offset".to_owned())?;
        self.settled.fetch_add(1, Relaxed);
        Ok(())
    }

    async fn effect(&self, event: &Event) -> sqlx::Result<()> {
        let mut tx = self.pool.begin().await?;
        let claimed = sqlx::query(CLAIM).bind(event.id).execute(&mut *tx).await?;
        if claimed.rows_affected() == 1 {
            let deposited = event.deposited;
            sqlx::query(UPSERT)
                .bind(deposited.account)
                .bind(deposited.amount)
                .bind(deposited.sequence)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await
    }
}
