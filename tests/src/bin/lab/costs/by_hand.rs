//! The loop that people write: an inbox table, one transaction per event (docs/guide.md, step 2).

use std::time::{Duration, Instant};

use inbox_consumer::config::Config;
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    message::Headers as _,
};
use sqlx::PgPool;
use tests::Count;

/// Its inbox.
pub(crate) const INBOX: &str =
    "CREATE TABLE inbox (event_id uuid PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())";

/// Consumes until it is dropped.
pub(crate) async fn run(config: Config, url: String) {
    let pool = PgPool::connect(&url).await.expect("the database");
    let consumer = hand_made(&config);
    let mut committed = Instant::now();
    loop {
        let record = consumer.recv().await.expect("a record");
        let headers = record.headers().expect("headers");
        let id = headers.iter().find(|h| h.key == "event_id").and_then(|h| h.value).expect("an id");
        let id = String::from_utf8_lossy(id).parse().expect("a UUID");
        let aggregate = String::from_utf8_lossy(record.key().expect("a key")).into_owned();
        let count: Count =
            serde_json::from_slice(record.payload().expect("a payload")).expect("JSON");
        effect(&pool, id, aggregate, count.n).await.expect("an effect");
        // By time, as careful loops do: a commit for each record would slow it to a crawl.
        if committed.elapsed() > Duration::from_secs(1) {
            let mut list = TopicPartitionList::new();
            let next = Offset::Offset(record.offset() + 1);
            list.add_partition_offset(record.topic(), record.partition(), next).expect("an offset");
            let _ = consumer.commit(&list, CommitMode::Async);
            committed = Instant::now();
        }
    }
}

async fn effect(
    pool: &PgPool,
    id: uuid::Uuid,
    aggregate: String,
    n: i64,
) -> Result<(), sqlx::Error> {
    let mut tx = pool.begin().await?;
    let claimed = sqlx::query("INSERT INTO inbox (event_id) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(id)
        .execute(&mut *tx)
        .await?;
    if claimed.rows_affected() == 1 {
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, $3, 0)")
            .bind(aggregate)
            .bind(n)
            .bind(id.to_string())
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await
}

/// Subscribed to the topics from their beginning; it commits nothing by itself.
fn hand_made(config: &Config) -> StreamConsumer {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", &config.kafka.bootstrap)
        .set("group.id", config.group())
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    let topics: Vec<&str> = config.kafka.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics).expect("a subscription");
    consumer
}
