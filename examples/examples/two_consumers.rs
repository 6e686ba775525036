//! A lesson on two consumers of one topic.
//!
//! Dedup is scoped to the *name* of a consumer. Two consumers with different names each see every event of a
//! topic and each handle it once: they have their own consumer group, their own inbox rows, their own parked
//! events, even when they share a database and its tables. Two processes with the *same* name share the work
//! instead, and each event is handled by one of them.
//!
//! Here `billing` runs in two processes (two tasks, for the lesson) and `mailing` in one.
//!
//! # What it prints
//!
//! ```text
//! 200 events are sent, each of them twice
//! billing and mailing have each settled all 400 records
//! billing has written 200 invoices, mailing 199 greetings
//! one event is parked, for mailing alone
//! ```

use examples::{Error, RunningConsumer, Services, configure, send, wait_until};
use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};

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

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("orders").await?;
    let database = services.create_database("customers").await?;
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;

    // The names are the whole difference. The tables are shared, and made once.
    let billing = configure("billing", &services.kafka, &topic, &database);
    let mailing = configure("mailing", &services.kafka, &topic, &database);
    inbox_consumer::migrate::<Postgres>(&billing).await?;

    let mut events = Vec::new();
    for n in 0..200_i64 {
        let customer = if n == 100 { "nobody".to_owned() } else { format!("c-{}", n % 20) };
        let customer = Aggregate::new("Customer", customer)?;
        events.push(OutboxEvent::new("Ordered", &customer, &Ordered { amount: n })?);
    }
    send(&services.kafka, &topic, &events).await?;
    send(&services.kafka, &topic, &events).await?; // every event twice: each consumer recognises the copies
    println!("200 events are sent, each of them twice");

    let running = [
        RunningConsumer::start(billing.clone(), Routes::default().on("Ordered", Invoice)).await?,
        RunningConsumer::start(billing, Routes::default().on("Ordered", Invoice)).await?,
        RunningConsumer::start(mailing, Routes::default().on("Ordered", Greet)).await?,
    ];
    // What each consumer has settled of the 400 records, by its own watermarks.
    let count_settled = async |consumer: &'static str| -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(
            "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions
             JOIN inbox_consumers USING (consumer_ref) WHERE consumer = $1",
        )
        .bind(consumer)
        .fetch_one(&pool)
        .await
    };
    wait_until("billing is through", || async { Ok(count_settled("billing").await? == 400) })
        .await?;
    wait_until("mailing is through", || async { Ok(count_settled("mailing").await? == 400) })
        .await?;
    for one in running {
        one.stop().await?;
    }

    println!("billing and mailing have each settled all 400 records");

    let count_rows = async |table: &'static str| -> Result<i64, sqlx::Error> {
        let query = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar(query).fetch_one(&pool).await
    };
    let (invoices, greetings) = (count_rows("invoices").await?, count_rows("greetings").await?);
    assert_eq!(invoices, 200, "billing handled each event once, whatever mailing thought of it");
    assert_eq!(greetings, 199, "mailing, too, but for the one that it refused");
    println!("billing has written {invoices} invoices, mailing {greetings} greetings");
    let parked: Vec<String> = sqlx::query_scalar(
        "SELECT consumer FROM inbox_parked JOIN inbox_consumers USING (consumer_ref)",
    )
    .fetch_all(&pool)
    .await?;
    assert_eq!(parked, ["mailing"], "the event is parked for mailing alone; its copy is a copy");
    println!("one event is parked, for {} alone", parked[0]);
    pool.close().await;
    services.clean_up().await
}
