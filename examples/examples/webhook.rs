//! A lesson on events that go to another service by HTTP, without a broker between the two.
//!
//! ```text
//! POST /orders ─▶ orders + outbox_events ─▶ relay ─▶ POST /events ─▶ received + parcels
//!                 (one transaction)                  (signed)        (one transaction, once per event)
//! ```
//!
//! The shop writes an order and its event in one transaction. The relay inside the shop hands each event to the
//! parcel service, a customer's one after the other, until that has answered 200. An answer may be lost, so an
//! event may come twice: the parcel service keeps the ids of what it has taken, in the transaction of the effect.
//!
//! # What it prints
//!
//! ```text
//! the shop takes orders on http://127.0.0.1:…, the parcel service events on http://127.0.0.1:…
//! a call without a signature is refused: 401
//! 6 orders, 6 parcels, no copies
//! the parcel service is down; the relay says: destination parcels (…
//! it is back: 12 parcels, and no attempt was spent
//! no parcels go to Atlantis: dora's and emil's orders are parked with 1 follower each, the others go on
//! row … Customer/dora: webhook parcels answered 422 Unprocessable …: no parcels go to Atlantis
//! dora's row is retried, now that Atlantis is served: both of her parcels are sent, in order
//! emil's row is discarded: his other parcel is sent
//! the relay was killed after the delivery, before its mark: the next one delivered a copy, which changed nothing
//! 18 parcels for 19 orders, each once, in the order of its customer
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
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use examples::{Error, RunningRelay, Services, WebServer, request, wait_until};
use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::{
    Relay,
    config::{Config, Route, Webhook},
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::{process::Command, sync::RwLock};

const SHOP: &str = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL, country text NOT NULL)";

const PARCELS: &str = "
    CREATE TABLE countries (name text PRIMARY KEY);
    INSERT INTO countries VALUES ('France'), ('Peru');
    CREATE TABLE received (id text PRIMARY KEY);
    CREATE TABLE parcels (place bigint GENERATED ALWAYS AS IDENTITY, order_id bigint NOT NULL, customer text NOT NULL)";

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
        // The client may send it again.
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
    // Events of one customer go one after the other, those of several at once.
    let aggregate = Aggregate::new("Customer", customer.as_str())?;
    let placed = OrderPlaced { order_id, customer, country };
    outbox_core::append(&mut *tx, &OutboxEvent::new("OrderPlaced", &aggregate, &placed)?).await?;
    tx.commit().await?;
    Ok(())
}

/// The relay of the shop. In a file it is `[[routes]]` and `[[webhooks]]`: see docs/webhooks.md.
fn configure_relay(database: &str, url: String, secret_file: String) -> Config {
    let mut config = Config::default();
    config.database.url = database.into();
    config.routes = vec![Route { to: "parcels".into(), ..Route::default() }];
    config.webhooks = vec![Webhook {
        name: "parcels".into(),
        url,
        secret_files: vec![secret_file],
        ..Webhook::default()
    }];
    // Shorter than usual, for the lesson: how long a relay that dies is missed, and how seldom what is out is probed.
    config.relay.lease = Duration::from_secs(5);
    config.limits.outage_delay_max = Duration::from_secs(1);
    config
}

/// The parcel service.
#[derive(Clone)]
struct Parcels {
    pool: PgPool,
    webhook: Arc<standardwebhooks::Webhook>,
    copies: Arc<AtomicUsize>,
    /// For the lesson: whoever holds it to write holds the answers back.
    answers: Arc<RwLock<()>>,
}

/// `POST /events`: the effect of an event, once.
async fn receive(
    State(service): State<Parcels>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    // First of all, over the body as it came: who cannot sign is not heard.
    if service.webhook.verify(&body, &headers).is_err() {
        return (StatusCode::UNAUTHORIZED, "the signature is wrong".into());
    }
    // `Idempotency-Key` is the same id; this one is what the signature covers, so nobody can send a copy under another.
    let id = headers["webhook-id"].to_str().unwrap_or_default();
    let Ok(placed) = serde_json::from_slice(&body) else {
        return (StatusCode::BAD_REQUEST, "that is no order".into());
    };
    let answer = match service.send_parcel(id, &placed).await {
        Ok(Taken::Sent) => (StatusCode::OK, String::new()),
        Ok(Taken::Copy) => {
            service.copies.fetch_add(1, Ordering::Relaxed);
            (StatusCode::OK, String::new())
        }
        // For good: the relay sets it aside for a person.
        Ok(Taken::Refused(why)) => (StatusCode::UNPROCESSABLE_ENTITY, why),
        // For now: the relay tries again.
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
    };
    drop(service.answers.read().await);
    answer
}

/// What became of an event.
enum Taken {
    Sent,
    Copy,
    Refused(String),
}

impl Parcels {
    /// The id and the effect in one transaction: both are there, or neither.
    async fn send_parcel(&self, id: &str, placed: &OrderPlaced) -> Result<Taken, sqlx::Error> {
        let mut tx = self.pool.begin().await?;
        let fresh = sqlx::query("INSERT INTO received (id) VALUES ($1) ON CONFLICT DO NOTHING")
            .bind(id)
            .execute(&mut *tx)
            .await?;
        if fresh.rows_affected() == 0 {
            return Ok(Taken::Copy);
        }
        let sent = sqlx::query(
            "INSERT INTO parcels (order_id, customer) SELECT $1, $2 FROM countries WHERE name = $3",
        )
        .bind(placed.order_id)
        .bind(&placed.customer)
        .bind(&placed.country)
        .execute(&mut *tx)
        .await?;
        if sent.rows_affected() == 0 {
            // Without COMMIT, so that it is no copy when it comes again.
            return Ok(Taken::Refused(format!("no parcels go to {}", placed.country)));
        }
        tx.commit().await?;
        Ok(Taken::Sent)
    }
}

/// A command of the relay as a person runs it: `outbox-relay failed …`. This program has the same ones: see `main`.
async fn run_command(database: &str, args: &[&str]) -> Result<String, Error> {
    let mut command = Command::new(env::current_exe()?);
    command.args(args).env("OUTBOX_DATABASE__URL", database).stderr(Stdio::inherit());
    // Asked for where no file has routes that do without.
    command.env("OUTBOX_KAFKA__BOOTSTRAP", "localhost:9092").env("OUTBOX_KAFKA__TOPIC", "unused");
    let output = command.output().await?;
    if !output.status.success() {
        return Err(Error::new(format!("{args:?} ended with {}", output.status)));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::main]
pub async fn main() -> Result<ExitCode, Error> {
    // A service that ships its own outbox answers the commands of its relay, too.
    if env::args().len() > 1 {
        return Ok(outbox_relay::cli::main().await);
    }
    let mut services = Services::find_or_start()?;
    // The databases of two services, which know nothing of each other.
    let shop_database = services.create_database("shop").await?;
    let shop_pool = PgPool::connect(&shop_database).await?;
    sqlx::raw_sql(SHOP).execute(&shop_pool).await?;
    outbox_core::migrate(&mut *shop_pool.acquire().await?).await?;
    let parcel_pool = PgPool::connect(&services.create_database("parcels").await?).await?;
    sqlx::raw_sql(PARCELS).execute(&parcel_pool).await?;

    // The secret that both know. Yours is made once: `echo whsec_$(openssl rand -base64 32)`.
    let secret = format!("whsec_{}", uuid::Uuid::new_v4().simple());
    let mut secret_file = tempfile::NamedTempFile::new()?;
    writeln!(secret_file, "{secret}")?;

    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let app = Router::new().route("/orders", post(post_order)).with_state(shop_pool.clone());
    let shop = WebServer::start(any, app).await?;
    let parcel_service = Parcels {
        pool: parcel_pool.clone(),
        webhook: Arc::new(standardwebhooks::Webhook::new(&secret)?),
        copies: Arc::default(),
        answers: Arc::default(),
    };
    let app = Router::new().route("/events", post(receive)).with_state(parcel_service.clone());
    let receiver = WebServer::start(any, app.clone()).await?;
    let address = receiver.address;
    println!(
        "the shop takes orders on http://{}, the parcel service events on http://{address}",
        shop.address
    );
    let (status, _) = request(address, "POST", "/events", "{}").await?;
    println!("a call without a signature is refused: {status}");
    assert_eq!(status, 401);

    let secret_path = secret_file.path().display().to_string();
    let config = configure_relay(&shop_database, format!("http://{address}/events"), secret_path);
    let relay = RunningRelay::start(Relay::builder(config.clone())).await?;

    let order = async |customer: &str, country: &str| {
        let order = format!(r#"{{"customer": "{customer}", "country": "{country}"}}"#);
        let (status, _) = request(shop.address, "POST", "/orders", &order).await?;
        assert_eq!(status, 201);
        Ok::<_, Error>(())
    };
    let count_parcels = async || {
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM parcels").fetch_one(&parcel_pool).await
    };
    let count_rows = async |condition: &'static str| {
        let sql =
            sqlx::AssertSqlSafe(format!("SELECT count(*) FROM outbox_events WHERE {condition}"));
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&shop_pool).await
    };
    let wait_for_marks = async || {
        wait_until("all is marked", async || Ok(count_rows("sent_at IS NULL").await? == 0)).await
    };

    // All is well.
    for customer in ["ada", "bob", "cleo", "ada", "bob", "cleo"] {
        order(customer, "France").await?;
    }
    wait_for_marks().await?;
    let parcels = count_parcels().await?;
    assert_eq!((parcels, parcel_service.copies.load(Ordering::Relaxed)), (6, 0));
    println!("6 orders, {parcels} parcels, no copies");

    // An outage is no event's fault.
    receiver.stop().await?;
    for customer in ["ada", "bob", "cleo", "ada", "bob", "cleo"] {
        order(customer, "Peru").await?;
    }
    let read_standstill = async || {
        sqlx::query_scalar::<_, Option<String>>("SELECT max(standstill) FROM outbox_relays")
            .fetch_one(&shop_pool)
            .await
    };
    wait_until("the relay says so", async || Ok(read_standstill().await?.is_some())).await?;
    let said = read_standstill().await?.unwrap_or_default();
    println!("the parcel service is down; the relay says: {said}");
    let count_parked = async |condition: &'static str| {
        let sql =
            sqlx::AssertSqlSafe(format!("SELECT count(*) FROM outbox_parked WHERE {condition}"));
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&shop_pool).await
    };
    let spent = count_parked("attempts > 0 OR state IN ('retry', 'parked')").await?;
    assert_eq!((spent, count_rows("sent_at IS NULL").await?), (0, 6));
    let receiver = WebServer::start(address, app).await?;
    wait_for_marks().await?;
    assert_eq!(count_parked("true").await?, 0);
    println!("it is back: {} parcels, and no attempt was spent", count_parcels().await?);

    // What is refused for good waits for a person, with what follows it.
    for customer in ["dora", "emil"] {
        order(customer, "Atlantis").await?;
        order(customer, "Peru").await?;
    }
    for customer in ["ada", "bob"] {
        order(customer, "Peru").await?;
    }
    wait_until("two are refused, two wait behind them, two are sent", async || {
        let refused = count_parked("state = 'parked'").await?;
        let behind = count_parked("state = 'behind'").await?;
        Ok((refused, behind, count_parcels().await?) == (2, 2, 14))
    })
    .await?;
    println!(
        "no parcels go to Atlantis: dora's and emil's orders are parked with 1 follower each, the others go on"
    );
    let (seq, error): (i64, String) = sqlx::query_as(
        "SELECT seq, error FROM outbox_parked WHERE aggregate_id = 'dora' AND state = 'parked'",
    )
    .fetch_one(&shop_pool)
    .await?;
    println!("row {seq} Customer/dora: {error}");
    sqlx::query("INSERT INTO countries VALUES ('Atlantis')").execute(&parcel_pool).await?;
    let why = ["--by", "ada", "--reason", "Atlantis is served now"];
    let retry = ["failed", "retry", "--aggregate", "Customer/dora"];
    run_command(&shop_database, &[&retry[..], &why].concat()).await?;
    wait_until("dora's two", async || Ok(count_parcels().await? == 16)).await?;
    println!(
        "dora's row is retried, now that Atlantis is served: both of her parcels are sent, in order"
    );
    let discard = [
        "failed",
        "discard",
        "--error",
        "Atlantis",
        "--by",
        "ada",
        "--reason",
        "emil has cancelled",
    ];
    run_command(&shop_database, &discard).await?;
    // Marked, too: the relay is killed below.
    wait_until("emil's other one", async || {
        let unsent = count_rows("sent_at IS NULL AND discarded_at IS NULL").await?;
        Ok((count_parcels().await?, unsent) == (17, 0))
    })
    .await?;
    println!("emil's row is discarded: his other parcel is sent");

    // The parcel service has it, and the relay dies before it knows.
    let held_back = parcel_service.answers.write().await;
    order("fay", "Peru").await?;
    wait_until("fay's parcel", async || Ok(count_parcels().await? == 18)).await?;
    relay.kill().await;
    assert_eq!(count_rows("sent_at IS NULL AND discarded_at IS NULL").await?, 1);
    drop(held_back);
    let relay = RunningRelay::start(Relay::builder(config)).await?;
    wait_until("the copy", async || {
        Ok(count_rows("sent_at IS NULL AND discarded_at IS NULL").await? == 0)
    })
    .await?;
    assert_eq!(parcel_service.copies.load(Ordering::Relaxed), 1);
    println!(
        "the relay was killed after the delivery, before its mark: the next one delivered a copy, which changed nothing"
    );
    relay.stop().await?;

    let orders: Vec<(String, i64)> = sqlx::query_as(
        "SELECT customer, id FROM orders WHERE (customer, country) <> ('emil', 'Atlantis') ORDER BY customer, id",
    )
    .fetch_all(&shop_pool)
    .await?;
    let parcels: Vec<(String, i64)> =
        sqlx::query_as("SELECT customer, order_id FROM parcels ORDER BY customer, place")
            .fetch_all(&parcel_pool)
            .await?;
    assert_eq!(parcels, orders);
    println!(
        "{} parcels for {} orders, each once, in the order of its customer",
        parcels.len(),
        orders.len() + 1
    );
    receiver.stop().await?;
    shop.stop().await?;
    shop_pool.close().await;
    parcel_pool.close().await;
    services.clean_up().await?;
    Ok(ExitCode::SUCCESS)
}
