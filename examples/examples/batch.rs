//! A lesson on batches, handlers for whole runs of events.
//!
//! A [`Handler`](inbox_consumer::Handler) is called once for each event. That is simple, and the consumer still
//! commits many events in one transaction; but each call costs at least one round trip to the database. A
//! [`BatchHandler`] is called with a *run*: events of one type that can go together without any of them
//! overtaking an earlier one of its aggregate. One statement then does the work of hundreds.
//!
//! Everything else stays as it is: each event takes effect exactly once, and an event that fails costs no
//! other one (the run is repeated event by event to find it, unless the handler names it).
//!
//! # What it prints
//!
//! ```text
//! 3,000 visits of 30 pages and 300 prices of 10 articles are sent, and 500 of these events twice
//! the consumer has settled all of them
//! 3000 visits are counted, by … calls of the handler
//! the last price of each article is 30
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use examples::{Error, RunningConsumer, Services, configure, send, wait_until};
use inbox_consumer::{BatchHandler, Event, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};

const TABLES: &str = "
    CREATE TABLE pages (page text PRIMARY KEY, visits bigint NOT NULL, seconds bigint NOT NULL);
    CREATE TABLE prices (article text PRIMARY KEY, price bigint NOT NULL)";

/// Somebody looked at a page; the page is the aggregate.
#[derive(Serialize, Deserialize)]
struct PageVisited {
    seconds: i64,
}

/// Counts visits, a whole run in one statement.
struct CountVisits {
    /// Only for this lesson. See the lesson `state` for what a handler may keep.
    calls: Arc<AtomicU64>,
}

impl BatchHandler<Postgres> for CountVisits {
    type Event = PageVisited;

    async fn handle(
        &self,
        events: &[Event<PageVisited>],
        tx: &mut Tx<'_, Postgres>,
    ) -> HandlerResult {
        self.calls.fetch_add(1, Relaxed);
        let pages: Vec<&str> = events.iter().map(|e| e.aggregate().aggregate_id()).collect();
        let seconds: Vec<i64> = events.iter().map(|e| e.payload.seconds).collect();
        // A page may occur several times in a run, and ON CONFLICT DO UPDATE refuses to touch a row twice:
        // so the events are added up first. Sums do not care for order.
        sqlx::query(
            "INSERT INTO pages (page, visits, seconds)
             SELECT page, count(*), sum(seconds) FROM unnest($1::text[], $2::bigint[]) v (page, seconds)
             GROUP BY page ORDER BY page
             ON CONFLICT (page) DO UPDATE
             SET visits = pages.visits + excluded.visits, seconds = pages.seconds + excluded.seconds",
        )
        .bind(pages)
        .bind(seconds)
        .execute(&mut *tx)
        .await?;
        Ok(())
    }
}

/// An article has a new price; the article is the aggregate.
#[derive(Serialize, Deserialize)]
struct PriceChanged {
    price: i64,
}

/// Keeps the latest price. Here order matters, and a sum is no help: only the last one counts.
struct KeepPrice;

impl BatchHandler<Postgres> for KeepPrice {
    type Event = PriceChanged;

    async fn handle(
        &self,
        events: &[Event<PriceChanged>],
        tx: &mut Tx<'_, Postgres>,
    ) -> HandlerResult {
        let articles: Vec<&str> = events.iter().map(|e| e.aggregate().aggregate_id()).collect();
        let prices: Vec<i64> = events.iter().map(|e| e.payload.price).collect();
        sqlx::query(
            "INSERT INTO prices (article, price) SELECT * FROM unnest($1::text[], $2::bigint[])
             ON CONFLICT (article) DO UPDATE SET price = excluded.price",
        )
        .bind(articles)
        .bind(prices)
        .execute(&mut *tx)
        .await?;
        Ok(())
    }

    /// Each article occurs once in a run: the statement above touches no row twice, and of two changes the
    /// earlier one is always in an earlier run.
    fn one_per_aggregate(&self) -> bool {
        true
    }
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("visits").await?;
    let database = services.create_database("statistics").await?;
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let config = configure("statistics", &services.kafka, &topic, &database);
    inbox_consumer::migrate::<Postgres>(&config).await?;

    // 3,000 visits of 30 pages, in between 300 changes of 10 prices; the last price of each article is 30.
    let mut events = Vec::new();
    for n in 0..3_000_i64 {
        let page = Aggregate::new("Page", format!("/p/{}", n % 30))?;
        events.push(OutboxEvent::new("PageVisited", &page, &PageVisited { seconds: n % 7 })?);
        if n % 10 == 0 {
            let article = Aggregate::new("Article", (n / 10 % 10).to_string())?;
            let price = PriceChanged { price: n / 100 + 1 };
            events.push(OutboxEvent::new("PriceChanged", &article, &price)?);
        }
    }
    send(&services.kafka, &topic, &events).await?;
    // A producer that was not sure sends some once more: same ids, so they count once.
    send(&services.kafka, &topic, &events[..500]).await?;
    println!(
        "3,000 visits of 30 pages and 300 prices of 10 articles are sent, and 500 of these events twice"
    );

    let calls = Arc::new(AtomicU64::new(0));
    let routes = Routes::default()
        .on_batch("PageVisited", CountVisits { calls: Arc::clone(&calls) })
        .on_batch("PriceChanged", KeepPrice);
    let running = RunningConsumer::start(config, routes).await?;
    wait_until("3,300 events are settled", || async {
        let seen: i64 =
            sqlx::query_scalar("SELECT count(*) FROM inbox_events").fetch_one(&pool).await?;
        Ok(seen == 3_300)
    })
    .await?;
    running.stop().await?;
    println!("the consumer has settled all of them");

    let (visits, seconds): (i64, i64) =
        sqlx::query_as("SELECT sum(visits)::bigint, sum(seconds)::bigint FROM pages")
            .fetch_one(&pool)
            .await?;
    assert_eq!(visits, 3_000, "the copies count once");
    assert_eq!(seconds, (0..3_000_i64).map(|n| n % 7).sum::<i64>());
    let last: Vec<i64> =
        sqlx::query_scalar("SELECT DISTINCT price FROM prices").fetch_all(&pool).await?;
    assert_eq!(last, [30], "the last price of each article");
    let calls = calls.load(Relaxed);
    assert!(calls < 1_500, "runs are longer than two events");
    println!("{visits} visits are counted, by {calls} calls of the handler");
    println!("the last price of each article is {}", last[0]);
    pool.close().await;
    services.clean_up().await
}
