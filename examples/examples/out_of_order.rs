//! A lesson on events that come out of order, by the version that they carry.
//!
//! Order is kept within a partition, as the producer wrote it. Where producers send side by side, or send old events
//! once more under new ids, that is not the order in which things happened. A producer that counts the versions of an
//! aggregate (`with_aggregate_version`) lets a route absorb it (docs/versions.md):
//!
//! - `stale`: each event says all there is to know, so the newest one wins. What is older is settled without its
//!   handler.
//! - `gap`: each event builds on the one before it, so none is run before its predecessor. It waits, for a time.
//!
//! # What it prints
//!
//! ```text
//! 5 prices of 3 articles and 5 bookings of 3 accounts are sent, the newest first
//! each article has its last price, though a price of it came later 12 times
//! each account is booked in the order of its versions: 1 2 3 4 5
//! ```

use std::time::Duration;

use examples::{Error, RunningConsumer, Services, configure, send, wait_until};
use inbox_consumer::{Event, GapEnd, Handler, HandlerResult, Routes, Tx, VersionPolicy};
use outbox_core::{Aggregate, OutboxEvent};
use sqlx::{PgPool, Postgres};

const TABLES: &str = "
    CREATE TABLE prices (article text PRIMARY KEY, price bigint NOT NULL, changes int NOT NULL DEFAULT 1);
    CREATE TABLE bookings (booking bigserial, account text NOT NULL, n bigint NOT NULL)";

const VERSIONS: i64 = 5;

/// The price of an article, which is all there is to know of it.
struct SetPrice;

impl Handler<Postgres> for SetPrice {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query(
            "INSERT INTO prices (article, price) VALUES ($1, $2)
             ON CONFLICT (article) DO UPDATE SET price = excluded.price, changes = prices.changes + 1",
        )
        .bind(event.aggregate().aggregate_id())
        .bind(event.payload)
        .execute(&mut *tx)
        .await?;
        Ok(())
    }
}

/// A booking, which builds on those before it.
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
    let topic = services.create_topic("versions").await?;
    let database = services.create_database("versions").await?;
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let config = configure("versions", &services.kafka, &topic, &database);
    inbox_consumer::migrate::<Postgres>(&config).await?;

    let wait = Duration::from_secs(60);
    let routes = Routes::default()
        .on("Priced", SetPrice)
        .versions("Priced", VersionPolicy::stale())
        .on("Booked", Book)
        // Versions begin with 1: so the first event of an account is not taken for its beginning.
        .versions("Booked", VersionPolicy::gap(wait, GapEnd::Park).first(1));
    let running = RunningConsumer::start(config, routes).await?;

    for version in (1..=VERSIONS).rev() {
        let mut events = Vec::new();
        for n in 1..=3 {
            for (kind, event_type) in [("Article", "Priced"), ("Account", "Booked")] {
                let aggregate = Aggregate::new(kind, format!("{kind}-{n}"))?;
                let event = OutboxEvent::new(event_type, &aggregate, &version)?;
                events.push(event.with_aggregate_version(version));
            }
        }
        send(&services.kafka, &topic, &events).await?;
    }
    println!("5 prices of 3 articles and 5 bookings of 3 accounts are sent, the newest first");

    let count = async |sql: &'static str| sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await;
    wait_until("all bookings are there", || async {
        Ok(count("SELECT count(*) FROM bookings").await? == 3 * VERSIONS)
    })
    .await?;
    wait_until("all prices are settled", || async {
        let settled = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
        Ok(count(settled).await? == 6 * VERSIONS)
    })
    .await?;
    running.stop().await?;

    let newest = "SELECT count(*) FROM prices WHERE price = 5 AND changes = 1";
    assert_eq!(count(newest).await?, 3, "what came after the newest one changed nothing");
    let stale = 3 * (VERSIONS - 1);
    println!("each article has its last price, though a price of it came later {stale} times");
    let booked: Vec<String> = sqlx::query_scalar(
        "SELECT string_agg(n::text, ' ' ORDER BY booking) FROM bookings GROUP BY account",
    )
    .fetch_all(&pool)
    .await?;
    assert_eq!(booked, ["1 2 3 4 5"; 3]);
    println!("each account is booked in the order of its versions: {}", booked[0]);
    pool.close().await;
    services.clean_up().await
}
