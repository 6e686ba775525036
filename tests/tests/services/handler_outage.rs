//! What meets every event of a handler, while those of others commit, is no event's fault.

use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Routes};
use serde_json::json;
use sqlx::Postgres;
use tests::{Counter, Record, SOON, Stage, eventually};

use super::acting::{acting, told};

/// Longer than an event had before it was parked: five times the time-out of a lock, and its attempts.
const HELD: Duration = Duration::from_secs(12);

fn routes() -> Routes<Postgres> {
    acting().on("Counted", Counter)
}

async fn stage() -> Stage {
    let mut stage = Stage::set("handler-outage", 1).await;
    stage.config.retry.attempts_max = 2;
    stage.config.database.lock_timeout = Duration::from_millis(100);
    stage.config.limits.outage_delay_max = Duration::from_secs(1);
    stage.schema.run("CREATE TABLE ledger (n bigint)").await;
    stage
}

/// Events of one handler in many aggregates, each with this SQL.
fn all(count: i64, sql: &str) -> Vec<Record> {
    (0..count).map(|at| told(&format!("told-{at}"), 1, json!({"sql": sql}))).collect()
}

/// Events of another handler commit all the time; answers how many.
async fn beside(stage: &Stage, during: Duration) -> i64 {
    let (begun, mut sent) = (Instant::now(), 0);
    while begun.elapsed() < during {
        // In many aggregates: some of them are in lanes where nothing waits.
        stage.count(&format!("beside-{}", sent % 16), sent / 16 + 1, sent / 16 + 1).await;
        sent += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sent
}

/// A migration holds a table that one handler writes to.
#[tokio::test]
async fn a_table_that_is_locked_for_a_while_parks_nothing() {
    let stage = stage().await;
    let mut migration = stage.schema.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *migration)
        .await
        .unwrap();
    let running = stage.start(routes()).await;
    stage.send(&all(10, "INSERT INTO ledger VALUES (1)")).await;
    let others = beside(&stage, HELD).await;
    let parked = stage.parked("").await;
    migration.commit().await.unwrap();
    assert_eq!(parked, 0, "events of a handler whose table was locked");
    eventually(SOON, "all of them", async || stage.effects().await == others + 10).await;
    assert_eq!(stage.schema.number("SELECT count(*) FROM ledger").await, 10);
    assert_eq!(running.stop().await, Ended::Shutdown);
}
