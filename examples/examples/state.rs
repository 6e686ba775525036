//! A lesson on handlers with state.
//!
//! One handler serves all events of its type, on many tasks at once, for as long as the process lives; and it
//! may be called more than once for an event (after a failure, a deadlock, a crash). Only what goes through
//! `tx` is undone with a failed attempt. So keep in a handler what is the same for every attempt:
//!
//! - settings and clients: plain fields, made before the routes;
//! - something that changes from outside, such as rates that are read anew every minute: behind a lock that
//!   is held for a moment, never across an `.await`;
//! - never results: a counter or a list in `self` also counts the attempts that failed. Write results to the
//!   database, through `tx`.
//!
//! # What it prints
//!
//! ```text
//! ten payments are sent: 10 bookings at the old rate
//! the rate changes: 1 booking at the new rate
//! a payment in a currency without a rate is parked
//! 11 bookings in the table, but … calls of the handler: what it counts itself is not what has happened
//! ```

use std::sync::{
    Arc, RwLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use examples::{Error, RunningConsumer, Services, configure, send, wait_until};
use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};

const TABLES: &str = "
    CREATE TABLE rates (currency text PRIMARY KEY, cents bigint NOT NULL);
    INSERT INTO rates VALUES ('EUR', 100), ('USD', 90);
    CREATE TABLE bookings (account text NOT NULL, cents bigint NOT NULL, fee bigint NOT NULL)";

/// A payment in some currency.
#[derive(Serialize, Deserialize)]
struct Paid {
    currency: String,
    amount: i64,
}

/// What one unit of a currency is worth. Shared by the handler and by whoever reads it anew.
#[derive(Clone, Default)]
struct Rates(Arc<RwLock<Vec<(String, i64)>>>);

impl Rates {
    /// Reads them, on a connection of its own: this is not part of any event's transaction.
    async fn refresh(&self, pool: &PgPool) -> Result<(), sqlx::Error> {
        let rates = sqlx::query_as("SELECT currency, cents FROM rates").fetch_all(pool).await?;
        *self.0.write().expect("nobody panics with the lock in hand") = rates;
        Ok(())
    }

    /// The lock is gone when this returns: nothing waits while it is held.
    fn cents(&self, currency: &str) -> Option<i64> {
        let rates = self.0.read().expect("nobody panics with the lock in hand");
        rates.iter().find(|rate| rate.0 == currency).map(|rate| rate.1)
    }
}

/// Books payments.
struct Book {
    /// A setting: the same for every call.
    fee: i64,
    /// Something from outside that changes.
    rates: Rates,
    /// The mistake that this lesson warns of: it counts calls, not events.
    attempts: Arc<AtomicU64>,
}

impl Handler<Postgres> for Book {
    type Event = Paid;

    async fn handle(&self, event: &Event<Paid>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let attempts = self.attempts.fetch_add(1, Relaxed) + 1;
        let Some(cents) = self.rates.cents(&event.payload.currency) else {
            // No attempt can help before somebody adds the rate.
            let unknown = format!("the currency {} has no rate", event.payload.currency);
            return Err(HandlerError::reject(unknown));
        };
        sqlx::query("INSERT INTO bookings (account, cents, fee) VALUES ($1, $2, $3)")
            .bind(event.aggregate().aggregate_id())
            .bind(event.payload.amount * cents)
            .bind(self.fee)
            .execute(&mut *tx)
            .await?;
        if attempts == 3 {
            // Something fails after the effect was written. The transaction takes the row back; nothing
            // takes back what `attempts` has counted.
            return Err(HandlerError::retry("the third call fails"));
        }
        Ok(())
    }
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("payments").await?;
    let database = services.create_database("bookings").await?;
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let config = configure("bookings", &services.kafka, &topic, &database);
    inbox_consumer::migrate::<Postgres>(&config).await?;

    // Everything that handlers need is made before the routes. (With the command line, `cli::main_with` takes
    // an async set-up like this one.)
    let rates = Rates::default();
    rates.refresh(&pool).await?;
    let attempts = Arc::new(AtomicU64::new(0));
    let book = Book { fee: 25, rates: rates.clone(), attempts: Arc::clone(&attempts) };
    let running = RunningConsumer::start(config, Routes::default().on("Paid", book)).await?;

    let make_payment = |account: i64, currency: &str| {
        let account = Aggregate::new("Account", account.to_string())?;
        let paid = Paid { currency: currency.to_owned(), amount: 2 };
        Ok::<_, Error>(OutboxEvent::new("Paid", &account, &paid)?)
    };
    let first: Vec<_> = (0..10).map(|n| make_payment(n, "USD")).collect::<Result<_, _>>()?;
    send(&services.kafka, &topic, &first).await?;
    let count_bookings = async |cents: i64| -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT count(*) FROM bookings WHERE cents = $1 AND fee = 25")
            .bind(cents)
            .fetch_one(&pool)
            .await
    };
    wait_until("10 bookings at the old rate", || async { Ok(count_bookings(180).await? == 10) })
        .await?;

    println!("ten payments are sent: 10 bookings at the old rate");

    // The rate changes, and whoever keeps the rates reads them anew. A timer would do it in a real service.
    sqlx::raw_sql("UPDATE rates SET cents = 95 WHERE currency = 'USD'").execute(&pool).await?;
    rates.refresh(&pool).await?;
    send(&services.kafka, &topic, &[make_payment(11, "USD")?, make_payment(12, "XYZ")?]).await?;
    wait_until("a booking at the new rate", || async { Ok(count_bookings(190).await? == 1) })
        .await?;
    println!("the rate changes: 1 booking at the new rate");
    wait_until("the currency without a rate is parked", || async {
        let parked: i64 =
            sqlx::query_scalar("SELECT count(*) FROM inbox_parked").fetch_one(&pool).await?;
        Ok(parked == 1)
    })
    .await?;
    println!("a payment in a currency without a rate is parked");
    running.stop().await?;

    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM bookings").fetch_one(&pool).await?;
    let attempts = attempts.load(Relaxed);
    assert_eq!(rows, 11, "one for each event that has a rate");
    assert!(attempts > 12, "the failed attempt counted, and so did what was run again with it");
    println!(
        "{rows} bookings in the table, but {attempts} calls of the handler: what it counts itself is not what has \
         happened"
    );
    pool.close().await;
    services.clean_up().await
}
