//! What the tests of releases share: handlers that fail as they are told, and operators.

use std::time::Duration;

use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx, config::Park};
use sqlx::{AssertSqlSafe, Postgres};
use tests::{Count, Record, SOON, Stage, broken, effect, eventually};

/// Fails while the table `broken` has the event, or with no number its whole aggregate.
pub struct Mendable;

impl Handler<Postgres> for Mendable {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        let broken = broken(event.aggregate().aggregate_id(), event.payload.n, tx).await?;
        if broken { Err(HandlerError::retry("broken")) } else { Ok(()) }
    }
}

pub fn mendable() -> Routes<Postgres> {
    Routes::default().on("Counted", Mendable)
}

/// Every twentieth event fails the first three times, after its effect.
pub struct Flaky;

impl Handler<Postgres> for Flaky {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, tx).await?;
        if event.payload.n % 20 == 0 && event.attempt() <= 3 {
            return Err(HandlerError::retry("flaky"));
        }
        Ok(())
    }
}

pub fn flaky() -> Routes<Postgres> {
    Routes::default().on("Counted", Flaky)
}

/// Parks at the first failure, and releases soon and often.
pub fn soon() -> Park {
    Park {
        delay_min: Duration::from_millis(20),
        delay_max: Duration::from_millis(50),
        releases_max: 1_000_000,
    }
}

/// Only persons release.
pub fn never() -> Park {
    Park { releases_max: 0, ..soon() }
}

/// A stage whose handlers can be broken.
pub async fn set(stem: &str, partitions: i32, park: Park) -> Stage {
    let mut stage = Stage::set(stem, partitions).await;
    stage.config.park = park;
    stage.config.retry.attempts_max = 1;
    stage.schema.run("CREATE TABLE broken (aggregate text, n bigint)").await;
    stage
}

pub async fn break_at(stage: &Stage, aggregate: &str, n: i64) {
    stage.schema.run(&format!("INSERT INTO broken VALUES ('{aggregate}', {n})")).await;
}

pub async fn mend(stage: &Stage) {
    stage.schema.run("DELETE FROM broken").await;
}

/// Number `n` of an aggregate, for the worker's handler, which can be broken, too.
pub fn breakable(aggregate: &str, n: i64) -> Record {
    let payload = format!("{{\"n\":{n},\"act\":\"mendable\"}}");
    Record::event(&format!("{aggregate}-{n}"), "Counted", aggregate, &payload)
}

/// What an operator's command writes; answers on how many events.
pub async fn intend(stage: &Stage, intent: &str, who: &str, which: &str) -> u64 {
    let sql = format!(
        "UPDATE inbox_parked SET intent = '{intent}', intent_by = '{who}', intent_at = now() WHERE {which}"
    );
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(stage.schema.pool()).await;
    done.expect("an operator's intent").rows_affected()
}

/// Nothing is parked, and no inbox row says that something is.
pub async fn nothing_is_parked(stage: &Stage) {
    let left = "SELECT (SELECT count(*) FROM inbox_parked) + \
                (SELECT count(*) FROM inbox_events WHERE parked)";
    eventually(SOON, "nothing is parked", async || stage.schema.number(left).await == 0).await;
}

/// How many rows the audit has of this.
pub async fn audited(stage: &Stage, what: &str) -> i64 {
    stage.schema.number(&format!("SELECT count(*) FROM inbox_audit WHERE what = '{what}'")).await
}
