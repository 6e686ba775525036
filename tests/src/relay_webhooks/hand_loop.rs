//! The loop that teams write: a transaction locks the oldest rows, posts each, marks them and commits.

use std::{sync::Arc, time::Duration};

use reqwest::Client;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::scene::{Scene, numbered};

/// Rows of a transaction.
const BATCH: i64 = 100;
/// How long a worker waits that has found nothing.
const PAUSE: Duration = Duration::from_millis(50);

/// Stores the same events as [`Scene::store`] in the loop's own table.
pub(super) async fn store(scene: &Scene, events: usize, aggregates: usize) {
    let fill = format!(
        "CREATE TABLE plain_outbox (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            event_id uuid NOT NULL, aggregate_id text NOT NULL, payload bytea NOT NULL, sent_at timestamptz);
         CREATE INDEX plain_outbox_unsent ON plain_outbox (seq) WHERE sent_at IS NULL;
         INSERT INTO plain_outbox (event_id, aggregate_id, payload)
         SELECT gen_random_uuid(), aggregate::text, convert_to(payload, 'UTF8') FROM ({}) events",
        numbered(events, aggregates)
    );
    scene.outbox.schema.run(&fill).await;
    scene.settle("plain_outbox").await;
}

/// Starts so many workers, which end when this is dropped. One keeps the order of aggregates; several do not, since
/// each locks the rows behind those of another.
pub(super) async fn start(scene: &Scene, workers: usize) -> JoinSet<()> {
    let (client, url) = (client(), scene.url());
    let mut set = JoinSet::new();
    for _ in 0..workers {
        let session = PgConnection::connect(&scene.outbox.schema.url()).await;
        let session = session.expect("a session");
        let (client, url) = (client.clone(), url.clone());
        set.spawn(async move { run(session, &client, &url).await.expect("the loop works") });
    }
    set
}

async fn run(mut session: PgConnection, client: &Client, url: &str) -> sqlx::Result<()> {
    loop {
        let mut tx = session.begin().await?;
        let rows: Vec<(i64, Uuid, String, Vec<u8>)> = sqlx::query_as(
            "SELECT seq, event_id, aggregate_id, payload FROM plain_outbox WHERE sent_at IS NULL
             ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED",
        )
        .bind(BATCH)
        .fetch_all(&mut *tx)
        .await?;
        if rows.is_empty() {
            tx.rollback().await?;
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let mut sent = Vec::with_capacity(rows.len());
        for (seq, event, aggregate, payload) in rows {
            let call = client.post(url).header("Content-Type", "application/json");
            let call = call.header("Idempotency-Key", event.to_string());
            let call = call.header("Aggregate-Id", aggregate).body(payload);
            match call.send().await.and_then(reqwest::Response::error_for_status) {
                Ok(_) => sent.push(seq),
                // What was not taken, and what comes behind it, goes in the next transaction.
                Err(_) => break,
            }
        }
        sqlx::query("UPDATE plain_outbox SET sent_at = now() WHERE seq = ANY($1)")
            .bind(&sent)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
    }
}

/// One client for all workers, which keeps its connections.
fn client() -> Client {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions of TLS")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().http1_only();
    client.timeout(Duration::from_secs(10)).build().expect("a client")
}
