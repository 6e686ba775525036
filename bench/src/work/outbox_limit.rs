//! The limit of shipping an outbox, as the best expert would write it by hand without fencing: one task reads ahead and
//! hands rows over, librdkafka keeps several batches in flight and the order of each key, another task marks the
//! rows that have been acknowledged, one statement at a time. No retries, no parking: what goes wrong ends the process.

use std::collections::HashSet;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};
use sqlx::postgres::{PgConnection, PgListener};
use sqlx::{Connection as _, Row as _};
use tokio::sync::mpsc;
use xtask::failure::{Explain as _, Failure, Outcome};

use super::ending::Ending;
use super::outbox::Row;
use crate::options::Order;
use crate::topic::settings;

/// Rows that are read at once, and that may be unmarked before the next are read.
const PAGE: usize = 4_000;
const UNMARKED_MAX: usize = 20_000;
/// How long it waits for a notification, and when the end is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// How long it waits where the producer is full.
const FULL: Duration = Duration::from_millis(2);

const READ: &str =
    "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, payload FROM outbox_events
    WHERE sent_at IS NULL AND seq > $1 ORDER BY seq LIMIT $2";
const MARK: &str = "UPDATE outbox_events SET sent_at = now() WHERE seq = ANY($1)";

/// Hands over what was acknowledged.
struct Acknowledged(mpsc::UnboundedSender<Result<i64, KafkaError>>);

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = Box<i64>;

    fn delivery(&self, result: &DeliveryResult<'_>, seq: Box<i64>) {
        let result = result.as_ref().map(|_| *seq).map_err(|(error, _)| error.clone());
        // A receiver that has gone has failed and reported why.
        drop(self.0.send(result));
    }
}

type Producer = ThreadedProducer<Acknowledged>;

/// Ships until its standard input ends.
pub(super) async fn run(order: Order) -> Outcome {
    let doing = || "PostgreSQL".to_owned();
    let (acknowledged, waiting) = mpsc::unbounded_channel();
    let mut settings = settings(&order.kafka);
    settings.set("enable.idempotence", "true").set("partitioner", "murmur2_random");
    settings.set("linger.ms", "1").set("queue.buffering.max.messages", "200000");
    let producer: Producer =
        settings.create_with_context(Acknowledged(acknowledged)).explain(|| "Kafka".to_owned())?;
    let reading = PgConnection::connect(&order.database).await.explain(doing)?;
    let marking = PgConnection::connect(&order.database).await.explain(doing)?;
    let mut wake = PgListener::connect(&order.database).await.explain(doing)?;
    wake.listen("outbox_events").await.explain(doing)?;
    let (marked, done) = mpsc::unbounded_channel();
    tokio::select! {
        read = read(&order, reading, producer, wake, done) => read,
        marked = mark(marking, waiting, marked) => marked,
    }
}

/// Reads what is unsent and hands it to the producer. A row may become visible late, behind others: at the end of what
/// is there it starts over, and leaves out what is in flight.
async fn read(
    order: &Order,
    mut session: PgConnection,
    producer: Producer,
    mut wake: PgListener,
    mut marked: mpsc::UnboundedReceiver<Vec<i64>>,
) -> Outcome {
    let doing = || "reading".to_owned();
    let (ending, mut in_flight, mut last) = (Ending::of(order), HashSet::new(), 0_i64);
    let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
    while !ending.reached(0) {
        while let Ok(seqs) = marked.try_recv() {
            for seq in seqs {
                in_flight.remove(&seq);
            }
        }
        if in_flight.len() > UNMARKED_MAX - PAGE {
            tokio::time::sleep(FULL).await;
            continue;
        }
        while wake.next_buffered().is_some() {}
        let page = sqlx::query(READ).bind(last).bind(limit).fetch_all(&mut session);
        let page = page.await.explain(doing)?;
        let mut new = 0;
        for row in &page {
            last = row.try_get("seq").explain(doing)?;
            if in_flight.insert(last) {
                new += 1;
                send(&producer, &order.topic, Row::read(row).explain(doing)?).await?;
            }
        }
        if page.len() < PAGE {
            last = 0;
        }
        if new == 0 {
            // Nothing to read again until something is appended; what was sent meanwhile is marked by then.
            drop(tokio::time::timeout(LOOK, wake.recv()).await);
        }
    }
    Ok(())
}

async fn send(producer: &Producer, topic: &str, row: Row) -> Outcome {
    let mut next = BaseRecord::with_opaque_to(topic, Box::new(row.seq))
        .key(&row.key)
        .payload(&row.payload)
        .headers(row.headers);
    loop {
        match producer.send(next) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                next = back;
                tokio::time::sleep(FULL).await;
            }
            Err((error, _)) => return Err(Failure(error.to_string())),
        }
    }
}

async fn mark(
    mut session: PgConnection,
    mut acknowledged: mpsc::UnboundedReceiver<Result<i64, KafkaError>>,
    marked: mpsc::UnboundedSender<Vec<i64>>,
) -> Outcome {
    let doing = || "marking".to_owned();
    let mut results = Vec::new();
    while acknowledged.recv_many(&mut results, UNMARKED_MAX).await > 0 {
        let seqs = results.drain(..).collect::<Result<Vec<i64>, _>>().explain(doing)?;
        sqlx::query(MARK).bind(&seqs).execute(&mut session).await.explain(doing)?;
        marked.send(seqs).explain(doing)?;
    }
    Ok(())
}
