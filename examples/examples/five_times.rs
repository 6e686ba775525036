//! A lesson on copies: each delivery is sent five times, and two processes of one consumer share them.
//!
//! Whatever sends events sends some of them twice: a relay that died before it marked a row, a producer that got no
//! answer, a webhook whose receiver answered too late. They come behind each other, or long after, with other events in
//! between, and to another process after a rebalance. The inbox knows them by their id, in the transaction of the effect.
//!
//! # What it prints
//!
//! ```text
//! 200 payments are sent, each of them five times
//! a process is dropped in the middle, as if it had died, and another one goes on
//! all 1000 records are settled, each payment is booked once, each account in its order
//! ```

use examples::{Error, RunningConsumer, Services, configure, send, wait_until};
use inbox_consumer::{Event, Handler, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use sqlx::{PgPool, Postgres};

const PAYMENTS: i64 = 200;
const ACCOUNTS: i64 = 10;

/// Books a payment: a row without any key that would refuse a second one.
#[derive(Clone, Copy)]
struct Book;

impl Handler<Postgres> for Book {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query("INSERT INTO bookings (account, n) VALUES ($1, $2)")
            .bind(event.aggregate().aggregate_id())
            .bind(event.payload)
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("payments").await?;
    let database = services.create_database("payments").await?;
    let pool = PgPool::connect(&database).await?;
    let table =
        "CREATE TABLE bookings (booking bigserial, account text NOT NULL, n bigint NOT NULL)";
    sqlx::raw_sql(table).execute(&pool).await?;
    let config = configure("payments", &services.kafka, &topic, &database);
    inbox_consumer::migrate::<Postgres>(&config).await?;

    let mut events = Vec::new();
    for n in 0..PAYMENTS {
        let account = Aggregate::new("Account", format!("a-{}", n % ACCOUNTS))?;
        events.push(OutboxEvent::new("Paid", &account, &n)?);
    }
    // Twice behind each other, then all of them once more, and the same again: copies near and far.
    let half: Vec<_> = events.iter().flat_map(|event| [event.clone(), event.clone()]).collect();
    send(&services.kafka, &topic, &half).await?;
    println!("{PAYMENTS} payments are sent, each of them five times");

    let count = async |sql: &'static str| sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await;
    let routes = || Routes::default().on("Paid", Book);
    let first = RunningConsumer::start(config.clone(), routes()).await?;
    let second = RunningConsumer::start(config.clone(), routes()).await?;
    wait_until("some are booked", || async {
        Ok(count("SELECT count(*) FROM bookings").await? > PAYMENTS / 4)
    })
    .await?;
    first.kill().await;
    println!("a process is dropped in the middle, as if it had died, and another one goes on");
    send(&services.kafka, &topic, &half).await?;
    send(&services.kafka, &topic, &events).await?;
    wait_until("all records are settled", || async {
        let settled = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
        Ok(count(settled).await? == 5 * PAYMENTS)
    })
    .await?;
    second.stop().await?;

    let booked: Vec<Vec<i64>> =
        sqlx::query_scalar("SELECT array_agg(n ORDER BY booking) FROM bookings GROUP BY account")
            .fetch_all(&pool)
            .await?;
    assert_eq!(booked.concat().len() as i64, PAYMENTS, "each payment is booked once");
    assert!(booked.iter().all(|account| account.is_sorted()), "each account in its order");
    println!(
        "all {} records are settled, each payment is booked once, each account in its order",
        5 * PAYMENTS
    );
    pool.close().await;
    services.clean_up().await
}
