//! A lesson on two consumers of one topic.
//!
//! Dedup is scoped to the *name* of a consumer. Two consumers with different names each see every event of a
//! topic and each handle it once: they have their own consumer group, their own inbox rows, their own parked
//! events, even when they share a database and its tables. Two processes with the *same* name share the work
//! instead, and each event is handled by one of them.
//!
//! Here `billing` runs in two processes (two tasks, for the lesson) and `mailing` in one.

use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};

use crate::{
    Error,
    running::{Running, config, send, until},
};

const TABLES: &str = "
    CREATE TABLE invoices (customer text NOT NULL, amount bigint NOT NULL);
    CREATE TABLE greetings (customer text NOT NULL)";

/// A customer has ordered.
#[derive(Serialize, Deserialize)]
struct Ordered {
    amount: i64,
}

/// What `billing` does with it.
struct Invoice;

impl Handler<Postgres> for Invoice {
    type Event = Ordered;

    async fn handle(&self, event: &Event<Ordered>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query("INSERT INTO invoices (customer, amount) VALUES ($1, $2)")
            .bind(event.aggregate().aggregate_id())
            .bind(event.payload.amount)
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

/// What `mailing` does with it. It is a little picky, which is no concern of `billing`.
struct Greet;

impl Handler<Postgres> for Greet {
    type Event = Ordered;

    async fn handle(&self, event: &Event<Ordered>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let customer = event.aggregate().aggregate_id();
        if customer == "nobody" {
            return Err(HandlerError::reject("nobody is no customer to greet"));
        }
        sqlx::query("INSERT INTO greetings (customer) VALUES ($1)")
            .bind(customer)
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

/// Runs the lesson.
pub async fn run(kafka: &str, topic: &str, database: &str) -> Result<(), Error> {
    let pool = PgPool::connect(database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;

    // The names are the whole difference. The tables are shared, and made once.
    let billing = config("billing", kafka, topic, database);
    let mailing = config("mailing", kafka, topic, database);
    inbox_consumer::migrate::<Postgres>(&billing).await?;

    let mut events = Vec::new();
    for n in 0..200_i64 {
        let customer = if n == 100 { "nobody".to_owned() } else { format!("c-{}", n % 20) };
        let customer = Aggregate::new("Customer", customer)?;
        events.push(OutboxEvent::new("Ordered", &customer, &Ordered { amount: n })?);
    }
    send(kafka, topic, &events).await?;
    send(kafka, topic, &events).await?; // every event twice: each consumer recognises the copies

    let running = [
        Running::start(billing.clone(), Routes::default().on("Ordered", Invoice)).await?,
        Running::start(billing, Routes::default().on("Ordered", Invoice)).await?,
        Running::start(mailing, Routes::default().on("Ordered", Greet)).await?,
    ];
    // What each consumer has settled of the 400 records, by its own watermarks.
    let settled = async |consumer: &'static str| -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(
            "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions
             JOIN inbox_consumers USING (consumer_ref) WHERE consumer = $1",
        )
        .bind(consumer)
        .fetch_one(&pool)
        .await
    };
    until("billing is through", || async { Ok(settled("billing").await? == 400) }).await?;
    until("mailing is through", || async { Ok(settled("mailing").await? == 400) }).await?;
    for one in running {
        one.stop().await?;
    }

    let count = async |table: &'static str| -> Result<i64, sqlx::Error> {
        let query = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar(query).fetch_one(&pool).await
    };
    let (invoices, greetings) = (count("invoices").await?, count("greetings").await?);
    println!("{invoices} invoices and {greetings} greetings of the same 200 events");
    assert_eq!(invoices, 200, "billing handled each event once, whatever mailing thought of it");
    assert_eq!(greetings, 199, "mailing, too, but for the one that it refused");
    let parked: Vec<String> = sqlx::query_scalar(
        "SELECT consumer FROM inbox_parked JOIN inbox_consumers USING (consumer_ref)",
    )
    .fetch_all(&pool)
    .await?;
    assert_eq!(parked, ["mailing"], "the event is parked for mailing alone; its copy is a copy");
    pool.close().await;
    Ok(())
}
