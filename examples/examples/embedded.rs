//! A lesson on a consumer inside a web service, and one shutdown for both.
//!
//! A consumer needs no process of its own. It is a value with a `run(shutdown)` that ends when `shutdown`
//! resolves: it takes no more events, finishes what is open, writes down how far it has come, and leaves the
//! group, so that another process goes on at once. Nothing is lost if the process dies instead; it only takes
//! until the session timeout before another one takes over.
//!
//! # What it prints
//!
//! ```text
//! one process answers on http://127.0.0.1:… and consumes
//! ten deliveries are sent; GET /stock/nuts answers 55
//! the service is told to end
//! the service has ended; it says: the consumer has shut down
//! 10 events are applied, the watermark is 10, and no partition has an owner
//! ```

use std::{net::SocketAddr, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use examples::{Error, Services, configure, request, send, wait_until};
use inbox_consumer::{Consumer, Ended, Event, Handler, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};
use tokio::{net::TcpListener, sync::watch};

const TABLES: &str = "CREATE TABLE stock (article text PRIMARY KEY, pieces bigint NOT NULL)";

/// Goods came in.
#[derive(Serialize, Deserialize)]
struct Delivered {
    pieces: i64,
}

/// Adds them to the stock.
struct AddStock;

impl Handler<Postgres> for AddStock {
    type Event = Delivered;

    async fn handle(&self, event: &Event<Delivered>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query(
            "INSERT INTO stock (article, pieces) VALUES ($1, $2)
             ON CONFLICT (article) DO UPDATE SET pieces = stock.pieces + excluded.pieces",
        )
        .bind(event.aggregate().aggregate_id())
        .bind(event.payload.pieces)
        .execute(&mut *tx)
        .await?;
        Ok(())
    }
}

/// `GET /stock/{article}`: what the web side of the service does with the same database.
async fn read_stock(
    State(pool): State<PgPool>,
    Path(article): Path<String>,
) -> Result<Json<i64>, StatusCode> {
    let pieces: Option<i64> = sqlx::query_scalar("SELECT pieces FROM stock WHERE article = $1")
        .bind(article)
        .fetch_optional(&pool)
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    pieces.map(Json).ok_or(StatusCode::NOT_FOUND)
}

/// Resolves when the service is told to end. In `main` a task would set it on SIGTERM.
async fn wait_for_end(mut ending: watch::Receiver<bool>) {
    // An error means that nobody is left who could tell: that is an end, too.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// The service: a listener and a consumer, side by side, until both have ended.
async fn serve(
    listener: TcpListener,
    consumer: Consumer<Postgres>,
    pool: PgPool,
    ending: watch::Receiver<bool>,
) -> Result<Ended, Error> {
    let app = Router::new().route("/stock/{article}", get(read_stock)).with_state(pool);
    let web = axum::serve(listener, app).with_graceful_shutdown(wait_for_end(ending.clone()));
    // If one of the two ends by itself, the service has to end as a whole: here `try_join!` and the typed end
    // of the consumer see to it. A consumer that is fenced or whose client is dead says so by `Ended`.
    let consumed = async { Ok::<_, Error>(consumer.run(wait_for_end(ending)).await) };
    let (ended, ()) = tokio::try_join!(consumed, async { Ok::<(), Error>(web.await?) })?;
    Ok(ended)
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("deliveries").await?;
    let database = services.create_database("warehouse").await?;
    // The web side has a pool of its own. The consumer opens its own connections: they are read-only outside
    // its transactions, which a shared pool could not be.
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let config = configure("warehouse", &services.kafka, &topic, &database);
    inbox_consumer::migrate::<Postgres>(&config).await?;
    let routes = Routes::default().on("Delivered", AddStock);
    // Whatever can be wrong with configuration, handlers or database is said here, before the port is open.
    let consumer = Consumer::builder(config, routes).build().await?;
    let counters = consumer.counters();

    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address: SocketAddr = listener.local_addr()?;
    println!("one process answers on http://{address} and consumes");
    let (end, ending) = watch::channel(false);
    let service = tokio::spawn(serve(listener, consumer, pool.clone(), ending));

    let nuts = Aggregate::new("Article", "nuts")?;
    let deliveries: Vec<_> = (1..=10)
        .map(|pieces| OutboxEvent::new("Delivered", &nuts, &Delivered { pieces }))
        .collect::<Result<_, _>>()?;
    send(&services.kafka, &topic, &deliveries).await?;
    wait_until("the deliveries are in stock", || async {
        let answer = request(address, "GET", "/stock/nuts", "").await;
        Ok(answer.is_ok_and(|answer| answer == (200, "55".to_owned())))
    })
    .await?;
    assert_eq!(request(address, "GET", "/stock/bolts", "").await?.0, 404);

    println!("ten deliveries are sent; GET /stock/nuts answers 55");

    println!("the service is told to end");
    end.send(true)?;
    let ended = tokio::time::timeout(Duration::from_secs(20), service).await???;
    assert_eq!(ended, Ended::Shutdown);
    println!("the service has ended; it says: {ended}");
    // It has written down where it stands and owns nothing more.
    let (watermark, owned): (i64, i64) =
        sqlx::query_as("SELECT sum(watermark)::bigint, count(owner) FROM inbox_partitions")
            .fetch_one(&pool)
            .await?;
    assert_eq!((watermark, owned), (10, 0));
    let applied = counters.read().applied;
    assert_eq!(applied, 10);
    println!(
        "{applied} events are applied, the watermark is {watermark}, and no partition has an owner"
    );
    pool.close().await;
    services.clean_up().await
}
