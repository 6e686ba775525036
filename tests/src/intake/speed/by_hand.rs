//! The receiver that one writes by hand: axum, sqlx, an inbox table, a transaction for each request.

use std::net::SocketAddr;

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde::Deserialize;
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::{net::TcpListener, task::JoinSet};
use uuid::Uuid;

use super::UPSERT;

const CLAIM: &str = "INSERT INTO inbox (event_id) VALUES ($1) ON CONFLICT DO NOTHING";

#[derive(Deserialize)]
struct Deposited {
    event_id: Uuid,
    payload: Deposit,
}

#[derive(Deserialize)]
struct Deposit {
    account: i64,
    amount: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Body {
    One(Deposited),
    Many(Vec<Deposited>),
}

/// Serves until the tasks are dropped. The pool has a connection for each of the sender's, up to what one server takes.
pub(super) async fn serve(url: &str, connections: usize, served: &mut JoinSet<()>) -> SocketAddr {
    let most = u32::try_from(connections.clamp(8, 32)).expect("a small number");
    let pool = PgPoolOptions::new().max_connections(most).min_connections(most);
    let pool = pool.connect(url).await.expect("the database answers");
    let router = Router::new().route("/events", post(receive)).with_state(pool);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a listener has an address");
    served.spawn(async move {
        axum::serve(listener, router).await.expect("the server serves");
    });
    address
}

async fn receive(State(pool): State<PgPool>, Json(body): Json<Body>) -> StatusCode {
    let mut events = match body {
        Body::One(event) => vec![event],
        Body::Many(events) => events,
    };
    // Else two lists wait for each other's accounts.
    events.sort_unstable_by_key(|event| event.payload.account);
    match write(&pool, &events).await {
        Ok(()) => StatusCode::OK,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn write(pool: &PgPool, events: &[Deposited]) -> sqlx::Result<()> {
    let mut tx = pool.begin().await?;
    for Deposited { event_id, payload } in events {
        let claimed = sqlx::query(CLAIM).bind(event_id).execute(&mut *tx).await?;
        if claimed.rows_affected() == 1 {
            let deposit = sqlx::query(UPSERT).bind(payload.account).bind(payload.amount);
            deposit.execute(&mut *tx).await?;
        }
    }
    tx.commit().await
}
