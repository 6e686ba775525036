//! A stage for a consumer: a topic, a schema with the inbox and a business table, a configuration.

use std::{sync::Arc, time::Duration};

use inbox_consumer::{
    BatchHandler, Consumer, Ended, Event, Handler, HandlerResult, Routes, Tx,
    config::{Config, Http},
    telemetry::{Counters, Readings},
};
use serde::Deserialize;
use sqlx::Postgres;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{Producer, Record, Schema, Services, Topic, soak::checker::EFFECTS, unique};

/// Everything a consumer needs, of its own.
#[derive(Debug)]
pub struct Stage {
    /// The topic that is consumed.
    pub topic: Topic,
    /// The schema with the inbox tables and `effects`.
    pub schema: Schema,
    /// A configuration with short times; change it before [`Stage::start`].
    pub config: Config,
    producer: Producer,
}

impl Stage {
    /// A topic with so many partitions, and a migrated schema.
    pub async fn set(stem: &str, partitions: i32) -> Self {
        let services = Services::from_env();
        let (topic, schema) = (services.topic(stem, partitions).await, services.schema().await);
        Self::with(topic, schema).await
    }

    /// The same around a topic and a schema that are there already.
    pub async fn with(topic: Topic, schema: Schema) -> Self {
        let mut config = Config::new(unique("c"), topic.bootstrap(), [topic.name()], schema.url());
        // Many consumers at once: each would want the same port.
        config.http = Http::off();
        config.kafka.session_timeout = Duration::from_secs(6);
        config.limits.drain_deadline = Duration::from_secs(1);
        config.limits.outage_delay_max = Duration::from_millis(500);
        config.retry.delay_min = Duration::from_millis(10);
        config.retry.delay_max = Duration::from_millis(50);
        // Only the tests of releases let time bring parked events back.
        config.park.releases_max = 0;
        inbox_consumer::migrate::<Postgres>(&config).await.expect("migrating the stage's schema");
        schema.run(EFFECTS).await;
        let producer = Producer::new(topic.bootstrap());
        Self { topic, schema, config, producer }
    }

    /// Sends records in their order.
    pub async fn send(&self, records: &[Record]) -> Vec<(i32, i64)> {
        self.producer.send(self.topic.name(), records).await
    }

    /// Sends `Counted` events `from..=to` of an aggregate.
    pub async fn count(&self, aggregate: &str, from: i64, to: i64) {
        let record = |n| counted(aggregate, n);
        self.send(&(from..=to).map(record).collect::<Vec<_>>()).await;
    }

    /// Gives a drain time for many events, and so one transaction, once a commit has told how long one takes.
    pub fn lengthen_drain(&mut self) {
        self.config.kafka.session_timeout = Duration::from_secs(45);
        self.config.limits.drain_deadline = Duration::from_secs(15);
    }

    /// Starts a consumer in this process.
    pub async fn start(&self, routes: Routes<Postgres>) -> Running {
        let built = Consumer::builder(self.config.clone(), routes).build().await;
        Running::of(built.expect("the stage's consumer is sound"))
    }

    /// How many rows `effects` has.
    pub async fn effects(&self) -> i64 {
        self.schema.number("SELECT count(*) FROM effects").await
    }

    /// The effects of an aggregate in the order they happened.
    pub async fn of(&self, aggregate: &str) -> Vec<i64> {
        sqlx::query_scalar("SELECT n FROM effects WHERE aggregate = $1 ORDER BY effect")
            .bind(aggregate)
            .fetch_all(self.schema.pool())
            .await
            .expect("reading the effects")
    }

    /// How many events are parked, with this reason or (`""`) any.
    pub async fn parked(&self, reason: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM inbox_parked WHERE $1 IN ('', reason)")
            .bind(reason)
            .fetch_one(self.schema.pool())
            .await
            .expect("reading the parked events")
    }
}

/// A `Counted` event: number `n` of its aggregate, with an id made from both.
pub fn counted(aggregate: &str, n: i64) -> Record {
    Record::event(&format!("{aggregate}-{n}"), "Counted", aggregate, &format!("{{\"n\":{n}}}"))
}

/// A consumer that runs in a task of this process.
#[derive(Debug)]
pub struct Running {
    /// What it has done so far.
    pub counters: Arc<Counters>,
    /// What can be read off it.
    pub readings: Readings,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

impl Running {
    /// Runs a consumer.
    pub fn of(consumer: Consumer<Postgres>) -> Self {
        let (shutdown, asked) = oneshot::channel::<()>();
        let (counters, readings) = (consumer.counters(), consumer.readings());
        let task = tokio::spawn(consumer.run(async move { _ = asked.await }));
        Self { counters, readings, shutdown, task }
    }

    /// Asks it to end, and waits for that.
    pub async fn stop(self) -> Ended {
        let _ = self.shutdown.send(());
        self.task.await.expect("the consumer does not panic")
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Ended {
        self.task.await.expect("the consumer does not panic")
    }

    /// Ends it as a crash would, as far as that goes within one process.
    pub fn abort(self) {
        self.task.abort();
    }
}

/// The payload of `Counted`.
#[derive(Debug, Deserialize)]
pub struct Count {
    /// The event's number in its aggregate.
    pub n: i64,
}

/// The handler that writes one row into `effects` for each event.
#[derive(Debug)]
pub struct Counter;

impl Handler<Postgres> for Counter {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, tx).await
    }
}

/// Writes the effect of an event; for handlers of one's own.
pub async fn effect(event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, $3, 0)")
        .bind(event.aggregate().aggregate_id())
        .bind(event.payload.n)
        .bind(event.id().to_string())
        .execute(tx)
        .await?;
    Ok(())
}

/// The same effects as `Counter`'s, a whole run in one statement.
#[derive(Debug)]
pub struct CountAll;

impl BatchHandler<Postgres> for CountAll {
    type Event = Count;

    async fn handle(&self, events: &[Event<Count>], tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let aggregates: Vec<&str> = events.iter().map(|e| e.aggregate().aggregate_id()).collect();
        let steps: Vec<i64> = events.iter().map(|e| e.payload.n).collect();
        let ids: Vec<String> = events.iter().map(|e| e.id().to_string()).collect();
        sqlx::query(
            "INSERT INTO effects (aggregate, n, event_id, pid) SELECT a, n, id, 0 FROM
             unnest($1::text[], $2::bigint[], $3::text[]) WITH ORDINALITY AS e(a, n, id, ord) ORDER BY ord",
        )
        .bind(aggregates)
        .bind(steps)
        .bind(ids)
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// Whether the table `broken` has an event, or with no number its whole aggregate: a handler is to fail then.
pub async fn broken(
    aggregate: &str,
    n: i64,
    tx: &mut Tx<'_, Postgres>,
) -> Result<bool, sqlx::Error> {
    let broken: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM broken WHERE aggregate = $1 AND coalesce(n, $2) = $2",
    )
    .bind(aggregate)
    .bind(n)
    .fetch_one(tx)
    .await?;
    Ok(broken > 0)
}
