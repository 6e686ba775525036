//! A lesson on events that come by HTTP, each of them five times, and an intake that lets each have one effect.
//!
//! ```text
//! POST /orders ─▶ orders + outbox_events ─▶ relay ─▶ a bad network ─▶ POST /events ─▶ parcels
//!                 (one transaction)        (signed)  (sends it 5 times) (an intake: once per event)
//! ```
//!
//! The shop and its relay are those of the lesson `webhook`. The parcel service does not look at ids and signatures
//! itself: it mounts the router of an intake, and has a handler. The network between the two hands each call on five
//! times at once, and the relay gets the last of the answers.
//!
//! # What it prints
//!
//! ```text
//! the shop takes orders on http://127.0.0.1:…, the parcel service events on http://127.0.0.1:…
//! a call without a signature is refused: 401
//! 30 orders came as 150 calls: 30 were applied, 120 were copies, 30 parcels
//! no parcels go to Atlantis: dora's order is parked with 1 follower, and nobody has to send either again
//! released, now that Atlantis is served: both of her parcels are sent, in order
//! 33 parcels for 33 orders, each once, in the order of its customer
//! ```

use std::{
    env,
    io::Write as _,
    net::SocketAddr,
    process::{ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use examples::{Error, RunningRelay, Services, WebServer, request, request_with, wait_until};
use futures::future::join_all;
use inbox_consumer::{
    Consumer, Event, Handler, HandlerError, HandlerResult, Routes, Tx, cli,
    config::{Config, Http},
};
use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::{Relay, config as relay_config};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};
use tokio::{process::Command, sync::oneshot};

const SHOP: &str = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL, country text NOT NULL)";

const PARCELS: &str = "
    CREATE TABLE countries (name text PRIMARY KEY);
    INSERT INTO countries VALUES ('France'), ('Peru');
    CREATE TABLE parcels (place bigint GENERATED ALWAYS AS IDENTITY, order_id bigint NOT NULL, customer text NOT NULL)";

/// How often the network hands a call on.
const COPIES: usize = 5;

/// What a client of the shop sends.
#[derive(Deserialize)]
struct Order {
    customer: String,
    country: String,
}

/// What the event says: the body of the webhook.
#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: i64,
    customer: String,
    country: String,
}

/// `POST /orders`: the order and its event, or neither.
async fn post_order(State(pool): State<PgPool>, Json(order): Json<Order>) -> StatusCode {
    match place_order(&pool, order).await {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn place_order(pool: &PgPool, order: Order) -> Result<(), Error> {
    let Order { customer, country } = order;
    let mut tx = pool.begin().await?;
    let order_id =
        sqlx::query_scalar("INSERT INTO orders (customer, country) VALUES ($1, $2) RETURNING id")
            .bind(&customer)
            .bind(&country)
            .fetch_one(&mut *tx)
            .await?;
    let aggregate = Aggregate::new("Customer", customer.as_str())?;
    let placed = OrderPlaced { order_id, customer, country };
    outbox_core::append(&mut *tx, &OutboxEvent::new("OrderPlaced", &aggregate, &placed)?).await?;
    tx.commit().await?;
    Ok(())
}

/// The effect of an event. That it happens once is not its business: it runs in the transaction that claims the id.
struct SendParcel;

impl Handler<Postgres> for SendParcel {
    type Event = OrderPlaced;

    async fn handle(&self, event: &Event<OrderPlaced>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let OrderPlaced { order_id, customer, country } = &event.payload;
        let sent = sqlx::query(
            "INSERT INTO parcels (order_id, customer) SELECT $1, $2 FROM countries WHERE name = $3",
        )
        .bind(order_id)
        .bind(customer)
        .bind(country)
        .execute(tx)
        .await?;
        if sent.rows_affected() == 0 {
            // For good: it is parked for a person, with what follows it.
            return Err(HandlerError::reject(format!("no parcels go to {country}")));
        }
        Ok(())
    }
}

fn routes(routes: Routes<Postgres>) -> Routes<Postgres> {
    routes.on("OrderPlaced", SendParcel)
}

/// The parcel service, without Kafka. In a file it is `[intake]`: see docs/intake.md.
fn configure_intake(database: &str, secret_file: String) -> Config {
    let mut config = Config::new("parcels", "", Vec::<String>::new(), database);
    config.http = Http::off();
    config.intake.listen = "mounted".into();
    config.intake.secret_files = vec![secret_file];
    config
}

fn configure_relay(
    database: &str,
    url: String,
    secret_file: String,
) -> outbox_relay::config::Config {
    let mut config = relay_config::Config::default();
    config.database.url = database.into();
    config.routes =
        vec![relay_config::Route { to: "parcels".into(), ..relay_config::Route::default() }];
    config.webhooks = vec![relay_config::Webhook {
        name: "parcels".into(),
        url,
        secret_files: vec![secret_file],
        ..relay_config::Webhook::default()
    }];
    config
}

/// A network that hands each call on five times at once, and what came back.
#[derive(Clone)]
struct BadNetwork {
    to: SocketAddr,
    told: Arc<Told>,
}

#[derive(Default)]
struct Told {
    calls: AtomicUsize,
    applied: AtomicUsize,
    copies: AtomicUsize,
}

async fn hand_on(
    State(BadNetwork { to, told }): State<BadNetwork>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let own = ["host", "content-length", "connection", "accept-encoding"];
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .filter(|(name, _)| !own.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect();
    let body = String::from_utf8_lossy(&body);
    let calls = (0..COPIES).map(|_| request_with(to, "POST", "/events", &headers, &body));
    let mut last = (StatusCode::BAD_GATEWAY, String::new());
    for (status, body) in join_all(calls).await.into_iter().flatten() {
        told.calls.fetch_add(1, Ordering::Relaxed);
        if body.contains(r#""status":"applied""#) {
            told.applied.fetch_add(1, Ordering::Relaxed);
        }
        if body.contains(r#""status":"copy""#) {
            told.copies.fetch_add(1, Ordering::Relaxed);
        }
        last = (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY), body);
    }
    last
}

/// A command of the parcel service as a person runs it. This program has the same ones: see `main`.
async fn run_command(database: &str, args: &[&str]) -> Result<String, Error> {
    let mut command = Command::new(env::current_exe()?);
    command.args(args).env("INBOX_DATABASE__URL", database).stderr(Stdio::inherit());
    command.env("INBOX_CONSUMER__NAME", "parcels").env("INBOX_INTAKE__LISTEN", "mounted");
    let output = command.output().await?;
    if !output.status.success() {
        return Err(Error::new(format!("{args:?} ended with {}", output.status)));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::main]
pub async fn main() -> Result<ExitCode, Error> {
    // A service with a consumer answers the commands for it, too.
    if env::args().len() > 1 {
        return Ok(cli::main::<Postgres>(routes).await);
    }
    let mut services = Services::find_or_start()?;
    // The databases of two services, which know nothing of each other.
    let shop_database = services.create_database("shop").await?;
    let shop_pool = PgPool::connect(&shop_database).await?;
    sqlx::raw_sql(SHOP).execute(&shop_pool).await?;
    outbox_core::migrate(&mut *shop_pool.acquire().await?).await?;
    let parcel_database = services.create_database("parcels").await?;
    let parcel_pool = PgPool::connect(&parcel_database).await?;
    sqlx::raw_sql(PARCELS).execute(&parcel_pool).await?;

    // The secret that both know. Yours is made once: `echo whsec_$(openssl rand -base64 32)`.
    let secret = format!("whsec_{}", uuid::Uuid::new_v4().simple());
    let mut secret_file = tempfile::NamedTempFile::new()?;
    writeln!(secret_file, "{secret}")?;
    let secret_path = secret_file.path().display().to_string();

    // The parcel service: a consumer, its intake, and a web server of one's own that has the intake's router.
    let config = configure_intake(&parcel_database, secret_path.clone());
    inbox_consumer::migrate::<Postgres>(&config).await?;
    let consumer = Consumer::builder(config, routes(Routes::default())).build().await?;
    let intake = consumer.intake().await?;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let receiver = WebServer::start(any, intake.router()).await?;
    let upkeep = tokio::spawn({
        let intake = intake.clone();
        async move { intake.run().await }
    });
    let (end, ending) = oneshot::channel::<()>();
    let consuming = tokio::spawn(consumer.run(async { _ = ending.await }));

    let app = Router::new().route("/orders", post(post_order)).with_state(shop_pool.clone());
    let shop = WebServer::start(any, app).await?;
    let (shop_address, address) = (shop.address, receiver.address);
    println!(
        "the shop takes orders on http://{shop_address}, the parcel service events on http://{address}"
    );
    let (status, _) = request(address, "POST", "/events", "{}").await?;
    println!("a call without a signature is refused: {status}");
    assert_eq!(status, 401);

    let told = Arc::new(Told::default());
    let network = BadNetwork { to: address, told: Arc::clone(&told) };
    let app = Router::new().route("/events", post(hand_on)).with_state(network);
    let network = WebServer::start(any, app).await?;
    let url = format!("http://{}/events", network.address);
    let relay = Relay::builder(configure_relay(&shop_database, url, secret_path));
    let relay = RunningRelay::start(relay).await?;

    let order = async |customer: &str, country: &str| {
        let order = format!(r#"{{"customer": "{customer}", "country": "{country}"}}"#);
        let (status, _) = request(shop_address, "POST", "/orders", &order).await?;
        assert_eq!(status, 201);
        Ok::<_, Error>(())
    };
    let count_parcels = async || {
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM parcels").fetch_one(&parcel_pool).await
    };
    let wait_for_marks = async || {
        wait_until("all is marked", async || {
            let sql = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL";
            Ok(sqlx::query_scalar::<_, i64>(sql).fetch_one(&shop_pool).await? == 0)
        })
        .await
    };

    // Each call comes five times.
    for _ in 0..10 {
        for customer in ["ada", "bob", "cleo"] {
            order(customer, "France").await?;
        }
    }
    wait_for_marks().await?;
    let [calls, applied, copies] =
        [&told.calls, &told.applied, &told.copies].map(|count| count.load(Ordering::Relaxed));
    let parcels = count_parcels().await?;
    assert_eq!((calls, applied, copies, parcels), (150, 30, 120, 30));
    println!(
        "30 orders came as {calls} calls: {applied} were applied, {copies} were copies, {parcels} parcels"
    );

    // What can never succeed is kept here. The sender is told 202: it has done its part.
    order("dora", "Atlantis").await?;
    order("dora", "Peru").await?;
    order("ada", "Peru").await?;
    wait_for_marks().await?;
    assert_eq!(count_parcels().await?, 31);
    let (parked, followers): (i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE reason = 'rejected'), count(*) FILTER (WHERE reason = 'follower')
         FROM inbox_parked",
    )
    .fetch_one(&parcel_pool)
    .await?;
    assert_eq!((parked, followers), (1, 1));
    println!(
        "no parcels go to Atlantis: dora's order is parked with {followers} follower, and nobody has to send either again"
    );
    sqlx::query("INSERT INTO countries VALUES ('Atlantis')").execute(&parcel_pool).await?;
    let release = ["parked", "release", "--topic", "http:events", "--yes", "--wait", "20s"];
    run_command(&parcel_database, &release).await?;
    wait_until("dora's two", async || Ok(count_parcels().await? == 33)).await?;
    println!("released, now that Atlantis is served: both of her parcels are sent, in order");

    relay.stop().await?;
    network.stop().await?;
    receiver.stop().await?;
    intake.finish().await;
    upkeep.abort();
    let _ = end.send(());
    assert_eq!(consuming.await?, inbox_consumer::Ended::Shutdown);

    let orders: Vec<(String, i64)> =
        sqlx::query_as("SELECT customer, id FROM orders ORDER BY customer, id")
            .fetch_all(&shop_pool)
            .await?;
    let parcels: Vec<(String, i64)> =
        sqlx::query_as("SELECT customer, order_id FROM parcels ORDER BY customer, place")
            .fetch_all(&parcel_pool)
            .await?;
    assert_eq!(parcels, orders);
    let (parcels, orders) = (parcels.len(), orders.len());
    println!("{parcels} parcels for {orders} orders, each once, in the order of its customer");
    shop.stop().await?;
    shop_pool.close().await;
    parcel_pool.close().await;
    services.clean_up().await?;
    Ok(ExitCode::SUCCESS)
}
