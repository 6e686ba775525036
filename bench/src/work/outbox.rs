//! The loop that people write to ship an outbox: rows are locked, sent, waited for and marked, a hundred per transaction.

use std::time::Duration;

use futures::future::try_join_all;
use outbox_core::header_names;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row as _};
use xtask::failure::{Explain as _, Failure, Outcome};

use super::ending::Ending;
use crate::candidate::Candidate;
use crate::options::Order;
use crate::topic::settings;

/// After each batch in the loop that sleeps, which is what it polls by.
const SLEEP: Duration = Duration::from_millis(500);
/// After a batch without rows in the loop that does not.
const EMPTY: Duration = Duration::from_millis(10);

/// Several of these may run at once; each then has rows of its own, and the order of an aggregate is lost.
const LOCK: &str =
    "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, payload FROM outbox_events
    WHERE sent_at IS NULL ORDER BY seq LIMIT 100 FOR UPDATE SKIP LOCKED";
const MARK: &str = "UPDATE outbox_events SET sent_at = now() WHERE seq = ANY($1)";

/// A row, as each of the loops reads it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) key: String,
    pub(super) payload: Vec<u8>,
    pub(super) headers: OwnedHeaders,
}

impl Row {
    pub(super) fn read(row: &PgRow) -> sqlx::Result<Self> {
        let id: uuid::Uuid = row.try_get("event_id")?;
        let id = id.to_string();
        let named = |key, value| Header { key, value: Some(value) };
        let headers = OwnedHeaders::new_with_capacity(3)
            .insert(named(header_names::EVENT_ID, id.as_str()))
            .insert(named(header_names::EVENT_TYPE, row.try_get("event_type")?))
            .insert(named(header_names::AGGREGATE_TYPE, row.try_get("aggregate_type")?));
        let (key, payload) = (row.try_get("aggregate_id")?, row.try_get("payload")?);
        Ok(Self { seq: row.try_get("seq")?, key, payload, headers })
    }
}

/// Ships until its standard input ends.
pub(super) async fn run(order: Order) -> Outcome {
    let pool = PgPool::connect(&order.database).await.explain(|| "PostgreSQL".to_owned())?;
    let mut settings = settings(&order.kafka);
    settings.set("enable.idempotence", "true").set("partitioner", "murmur2_random");
    let producer: FutureProducer = settings.create().explain(|| "Kafka".to_owned())?;
    let ending = Ending::of(&order);
    while !ending.reached(0) {
        let shipped = ship(&pool, &producer, &order.topic).await?;
        match order.candidate {
            Candidate::OutboxSleep => tokio::time::sleep(SLEEP).await,
            _ if shipped == 0 => tokio::time::sleep(EMPTY).await,
            _ => {}
        }
    }
    Ok(())
}

/// One transaction; answers how many rows it had.
async fn ship(pool: &PgPool, producer: &FutureProducer, topic: &str) -> Outcome<usize> {
    let doing = || "a batch".to_owned();
    let mut tx = pool.begin().await.explain(doing)?;
    let found = sqlx::query(LOCK).fetch_all(&mut *tx).await.explain(doing)?;
    let rows = found.iter().map(Row::read).collect::<sqlx::Result<Vec<Row>>>().explain(doing)?;
    let sent = rows.iter().map(|row| {
        let record = FutureRecord::to(topic).key(&row.key).payload(&row.payload);
        producer.send_result(record.headers(row.headers.clone())).map_err(|(error, _)| error)
    });
    let sent = sent.collect::<Result<Vec<_>, _>>().explain(doing)?;
    for delivered in try_join_all(sent).await.explain(doing)? {
        delivered.map_err(|(error, _)| Failure(error.to_string()))?;
    }
    let marked: Vec<i64> = rows.iter().map(|row| row.seq).collect();
    sqlx::query(MARK).bind(&marked).execute(&mut *tx).await.explain(doing)?;
    tx.commit().await.explain(doing)?;
    Ok(marked.len())
}
