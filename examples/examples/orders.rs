//! A lesson on the way from a web request to an effect in another service, and its answer.
//!
//! ```text
//! POST /orders ─▶ orders + outbox_events ─▶ relay ─▶ Kafka ─▶ consumer ─▶ accounts + outbox_events
//!                 (one transaction)                            (one transaction, once per event)
//! ```
//!
//! The order service never speaks to Kafka. It writes its order and the event of it in one transaction: both
//! are there, or neither. A relay ships the event, at least once. The consumer credits the account, remembers
//! the event's id and appends an event of its own, in one transaction: exactly once, whatever the relay and
//! Kafka did twice.
//!
//! # What it prints
//!
//! ```text
//! the order service takes orders on http://127.0.0.1:…
//! 30 orders are taken; 3 with a negative amount are refused, by a check of the database
//! each of them is credited to its account, with an event that says so
//! the relay has shut down
//! the balances add up to 465, and each answer names the order that it follows from
//! ```

use std::net::SocketAddr;

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use examples::{Error, RunningConsumer, Services, configure, request, wait_until};
use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, AggregateError, AppendError, OutboxEvent, OutboxEventError};
use outbox_relay::Relay;
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};
use tokio::{net::TcpListener, sync::oneshot};

const ORDERS: &str = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account bigint NOT NULL, amount bigint NOT NULL CHECK (amount > 0))";

const ACCOUNTS: &str =
    "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 0);
    INSERT INTO accounts (id) VALUES (1), (2), (3)";

/// What a client sends, what is written, and what the event says.
#[derive(Clone, Serialize, Deserialize)]
struct Order {
    account: i64,
    amount: i64,
}

/// `POST /orders`: the order and its event, or neither.
async fn post_order(
    State(pool): State<PgPool>,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<i64>), OrderError> {
    let id = place_order(&pool, &order).await?;
    Ok((StatusCode::CREATED, Json(id)))
}

async fn place_order(pool: &PgPool, order: &Order) -> Result<i64, OrderError> {
    let mut tx = pool.begin().await?;
    // The event first, for the lesson: even if the order is refused below, no event is left behind.
    let account = Aggregate::new("Account", order.account.to_string())?;
    outbox_core::append(&mut *tx, &OutboxEvent::new("OrderPlaced", &account, order)?).await?;
    let id =
        sqlx::query_scalar("INSERT INTO orders (account, amount) VALUES ($1, $2) RETURNING id")
            .bind(order.account)
            .bind(order.amount)
            .fetch_one(&mut *tx)
            .await?;
    tx.commit().await?;
    Ok(id)
}

/// Why an order was not taken.
enum OrderError {
    /// The client has to send another one.
    Invalid,
    /// The client may send it again.
    Unavailable,
}

impl From<sqlx::Error> for OrderError {
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(error) if error.is_check_violation() => Self::Invalid,
            _ => Self::Unavailable,
        }
    }
}

impl From<AppendError> for OrderError {
    fn from(_: AppendError) -> Self {
        Self::Unavailable
    }
}

impl From<AggregateError> for OrderError {
    fn from(_: AggregateError) -> Self {
        Self::Invalid
    }
}

impl From<OutboxEventError> for OrderError {
    fn from(_: OutboxEventError) -> Self {
        Self::Invalid
    }
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        match self {
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY.into_response(),
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }
}

/// What the account service tells in its turn.
#[derive(Serialize, Deserialize)]
struct AccountCredited {
    balance: i64,
}

/// Credits the account that an order was placed for, and says so.
struct CreditAccount;

impl Handler<Postgres> for CreditAccount {
    type Event = Order;

    async fn handle(&self, event: &Event<Order>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let Order { account, amount } = event.payload;
        let balance: Option<i64> = sqlx::query_scalar(
            "UPDATE accounts SET balance = balance + $1 WHERE id = $2 RETURNING balance",
        )
        .bind(amount)
        .bind(account)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(balance) = balance else {
            return Err(HandlerError::reject(format!("there is no account {account}")));
        };
        // Through `tx`: there if and only if the credit is. It says by itself which event it follows from.
        let credited = AccountCredited { balance };
        tx.append(&OutboxEvent::new("AccountCredited", event.aggregate(), &credited)?).await?;
        Ok(())
    }
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("orders").await?;
    // The databases of two services, which know nothing of each other but the topic.
    let orders = services.create_database("orders").await?;
    let accounts = services.create_database("accounts").await?;

    // The order service: its table, its outbox, its port.
    let order_pool = PgPool::connect(&orders).await?;
    sqlx::raw_sql(ORDERS).execute(&order_pool).await?;
    outbox_core::migrate(&mut *order_pool.acquire().await?).await?;
    let app = Router::new().route("/orders", post(post_order)).with_state(order_pool.clone());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address: SocketAddr = listener.local_addr()?;
    println!("the order service takes orders on http://{address}");
    let web = tokio::spawn(async move { axum::serve(listener, app).await });

    // Its relay, as a task here; as a process of its own it is the command `outbox-relay run`.
    let mut relay_config = outbox_relay::config::Config::new(&services.kafka, orders.as_str());
    relay_config.kafka.topic = topic.clone();
    relay_config.http = outbox_relay::config::Http::off();
    let relay = Relay::builder(relay_config).build().await?;
    let (end_relay, ending) = oneshot::channel::<()>();
    let relay = tokio::spawn(relay.run(async { _ = ending.await }));

    // The account service: its table, its inbox and its own outbox.
    let account_pool = PgPool::connect(&accounts).await?;
    sqlx::raw_sql(ACCOUNTS).execute(&account_pool).await?;
    let config = configure("accounts", &services.kafka, &topic, &accounts);
    inbox_consumer::migrate::<Postgres>(&config).await?;
    let routes = Routes::default().on("OrderPlaced", CreditAccount);
    let consumer = RunningConsumer::start(config, routes).await?;

    // Thirty orders, and some that are refused: no event may tell of those.
    for n in 1..=30 {
        let order = serde_json::to_string(&Order { account: 1 + n % 3, amount: n })?;
        let (status, body) = request(address, "POST", "/orders", &order).await?;
        assert!(status == 201 && body.parse::<i64>().is_ok(), "{status} {body}");
        if n % 10 == 0 {
            let refused = r#"{"account": 1, "amount": -5}"#;
            assert_eq!(request(address, "POST", "/orders", refused).await?.0, 422);
        }
    }
    println!(
        "30 orders are taken; 3 with a negative amount are refused, by a check of the database"
    );
    wait_until("thirty credits", || async {
        let answers: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_events")
            .fetch_one(&account_pool)
            .await?;
        Ok(answers == 30)
    })
    .await?;
    println!("each of them is credited to its account, with an event that says so");
    consumer.stop().await?;
    let _ = end_relay.send(());
    println!("{}", relay.await?);
    web.abort();

    let total: i64 = sqlx::query_scalar("SELECT sum(balance)::bigint FROM accounts")
        .fetch_one(&account_pool)
        .await?;
    assert_eq!(total, (1..=30).sum::<i64>(), "each order once, none of the refused ones");
    // Every answer names the event that it follows from, which has the id that the order service gave it.
    let sent: Vec<String> = sqlx::query_scalar(
        "SELECT event_id::text FROM outbox_events WHERE sent_at IS NOT NULL ORDER BY event_id",
    )
    .fetch_all(&order_pool)
    .await?;
    let causes: Vec<String> = sqlx::query_scalar(
        "SELECT h ->> 1 FROM outbox_events, json_array_elements(headers::json) h
         WHERE h ->> 0 = 'causation_id' ORDER BY (h ->> 1)::uuid",
    )
    .fetch_all(&account_pool)
    .await?;
    assert_eq!(sent.len(), 30);
    assert_eq!(causes, sent);
    println!(
        "the balances add up to {total}, and each answer names the order that it follows from"
    );
    order_pool.close().await;
    account_pool.close().await;
    services.clean_up().await
}
