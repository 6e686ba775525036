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

use std::net::SocketAddr;

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::Relay;
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    Error,
    http::request,
    running::{Running, config, until},
};

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
async fn place(
    State(pool): State<PgPool>,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<i64>), StatusCode> {
    match placed(&pool, &order).await {
        Ok(id) => Ok((StatusCode::CREATED, Json(id))),
        Err(error) if error.to_string().contains("violates check") => {
            Err(StatusCode::UNPROCESSABLE_ENTITY)
        }
        Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

async fn placed(pool: &PgPool, order: &Order) -> Result<i64, Error> {
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

/// Runs the lesson: `orders` and `accounts` are the databases of two services, which know nothing of each
/// other but the topic.
pub async fn run(kafka: &str, topic: &str, orders: &str, accounts: &str) -> Result<(), Error> {
    // The order service: its table, its outbox, its port.
    let order_pool = PgPool::connect(orders).await?;
    sqlx::raw_sql(ORDERS).execute(&order_pool).await?;
    outbox_core::migrate(&mut *order_pool.acquire().await?).await?;
    let app = Router::new().route("/orders", post(place)).with_state(order_pool.clone());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address: SocketAddr = listener.local_addr()?;
    let web = tokio::spawn(async move { axum::serve(listener, app).await });

    // Its relay, as a task here; as a process of its own it is the command `outbox-relay run`.
    let mut relay_config = outbox_relay::config::Config::new(kafka, orders);
    relay_config.kafka.topic = topic.into();
    let relay = Relay::builder(relay_config).build().await?;
    let (end_relay, ending) = oneshot::channel::<()>();
    let relay = tokio::spawn(relay.run(async { _ = ending.await }));

    // The account service: its table, its inbox and its own outbox.
    let account_pool = PgPool::connect(accounts).await?;
    sqlx::raw_sql(ACCOUNTS).execute(&account_pool).await?;
    let config = config("accounts", kafka, topic, accounts);
    inbox_consumer::migrate::<Postgres>(&config).await?;
    let routes = Routes::default().on("OrderPlaced", CreditAccount);
    let consumer = Running::start(config, routes).await?;

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
    until("thirty credits", || async {
        let answers: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_events")
            .fetch_one(&account_pool)
            .await?;
        Ok(answers == 30)
    })
    .await?;
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
    println!("30 orders, 30 credits, 30 answers; balances add up to {total}");
    order_pool.close().await;
    account_pool.close().await;
    Ok(())
}
