//! The limits, as the best expert would write them by hand: a thread that polls and reads records where
//! librdkafka has them, a task and a connection per partition, batches of what happens to wait. No fencing,
//! no retries, no parking: the first thing that goes wrong ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use xtask::failure::{Explain as _, Failure, Outcome};

use super::Times;
use super::ending::Ending;
use super::kafka::{passing, subscribed};
use super::record::Event;
use super::settle::Lane;
use crate::options::Order;
use crate::plan::PARTITIONS;

/// What may wait for a partition. A fetch brings thousands of records of one partition in a row: a short
/// queue would hold up the thread that polls while other partitions starve.
const QUEUE: usize = 20_000;
/// How often offsets are committed to Kafka.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(2);

/// What the thread that polls and the partitions tell each other.
#[derive(Debug)]
struct Shared {
    settled: AtomicU64,
    /// The next offset of each partition.
    next: Vec<AtomicI64>,
    done: AtomicBool,
}

pub(super) async fn run(order: Order) -> Outcome<Times> {
    let partitions = usize::try_from(PARTITIONS).unwrap_or_default();
    let shared = Arc::new(Shared {
        settled: AtomicU64::new(0),
        next: (0..partitions).map(|_| AtomicI64::new(0)).collect(),
        done: AtomicBool::new(false),
    });
    let mut tasks = JoinSet::new();
    let mut queues = Vec::new();
    for partition in 0..partitions {
        let lane = Lane::open(&order).await?;
        let (queue, waiting) = mpsc::channel(QUEUE);
        tasks.spawn(settle_all(lane, waiting, partition, order.batch, Arc::clone(&shared)));
        queues.push(queue);
    }
    let began = SystemTime::now();
    let (ending, polled) = (Ending::of(&order), Arc::clone(&shared));
    let polling = tokio::task::spawn_blocking(move || poll(&order, &queues, &polled));
    while !ending.reached(shared.settled.load(Relaxed)) {
        if let Some(ended) = tasks.try_join_next() {
            ended.explain(|| "a partition's task".to_owned())??;
        }
        if polling.is_finished() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let ended = SystemTime::now();
    shared.done.store(true, Relaxed);
    polling.await.explain(|| "the thread that polls".to_owned())??;
    Ok(Times { began, ended })
}

fn poll(order: &Order, queues: &[mpsc::Sender<Event>], shared: &Shared) -> Outcome {
    let doing = || format!("cannot consume {}", order.topic);
    let consumer = subscribed(order)?;
    let mut committed = Instant::now();
    while !shared.done.load(Relaxed) {
        if committed.elapsed() > COMMIT_EVERY {
            commit(&consumer, order, shared)?;
            committed = Instant::now();
        }
        let Some(message) = consumer.poll(Duration::from_millis(5)) else { continue };
        let message = match message {
            Err(error) if passing(&error) => continue,
            message => message.explain(doing)?,
        };
        let queue = usize::try_from(message.partition()).ok().and_then(|at| queues.get(at));
        let queue = queue.ok_or_else(|| Failure("a partition too many".to_owned()))?;
        queue.blocking_send(Event::read(&message)?).explain(doing)?;
    }
    Ok(())
}

fn commit(consumer: &BaseConsumer, order: &Order, shared: &Shared) -> Outcome {
    let doing = || "cannot commit offsets".to_owned();
    let mut list = TopicPartitionList::new();
    for (partition, next) in (0..).zip(&shared.next) {
        let next = next.load(Relaxed);
        if next > 0 {
            let next = Offset::Offset(next);
            list.add_partition_offset(&order.topic, partition, next).explain(doing)?;
        }
    }
    if list.count() > 0 {
        consumer.commit(&list, CommitMode::Async).explain(doing)?;
    }
    Ok(())
}

async fn settle_all(
    mut lane: Lane,
    mut waiting: mpsc::Receiver<Event>,
    partition: usize,
    batch: usize,
    shared: Arc<Shared>,
) -> Outcome {
    let mut events = Vec::with_capacity(batch);
    while waiting.recv_many(&mut events, batch).await > 0 {
        lane.settle(&events).await.explain(|| "an effect".to_owned())?;
        if let Some(last) = events.last() {
            shared.next[partition].store(last.offset + 1, Relaxed);
        }
        shared.settled.fetch_add(events.len() as u64, Relaxed);
        events.clear();
    }
    Ok(())
}
