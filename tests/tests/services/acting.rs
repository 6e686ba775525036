//! A handler that does what the payload of its event tells it, besides its effect: SQL that fails, that
//! ends the transaction, or that takes long.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Postgres};
use tests::Record;

/// The type of the events.
pub const TOLD: &str = "Told";

/// What an event tells its handler.
#[derive(Debug, Deserialize)]
pub struct Step {
    /// The event's number in its aggregate.
    n: i64,
    /// Run after the effect.
    #[serde(default)]
    sql: Option<String>,
    /// Through `tx.unguarded()`.
    #[serde(default)]
    unguarded: bool,
    /// Answer `Ok` whatever the SQL says.
    #[serde(default)]
    swallow: bool,
    /// Write the effect once more after the SQL, on the lent connection, whatever comes of it.
    #[serde(default)]
    again: bool,
    /// Only the first so many calls run the SQL; all do without a number.
    #[serde(default)]
    times: Option<u32>,
    /// How often one call runs it.
    #[serde(default = "one")]
    repeat: u32,
    /// Drop the SQL after so many milliseconds.
    #[serde(default)]
    drop_after: Option<u64>,
    /// Sleep so many milliseconds after the effect.
    #[serde(default)]
    sleep: u64,
    /// Answer that the event can never be handled.
    #[serde(default)]
    reject: bool,
}

fn one() -> u32 {
    1
}

/// Number `n` of its aggregate; `how` has the further fields of [`Step`].
pub fn told(aggregate: &str, n: i64, how: Value) -> Record {
    told_as(&format!("{aggregate}-{n}"), aggregate, n, how)
}

/// The same with an id of its own.
pub fn told_as(id: &str, aggregate: &str, n: i64, mut how: Value) -> Record {
    how["n"] = json!(n);
    Record::event(id, TOLD, aggregate, &how.to_string())
}

/// Does as it is told, and counts its calls by event.
#[derive(Debug, Default)]
pub struct Acting {
    calls: Mutex<HashMap<String, u32>>,
}

/// Routes with such a handler alone.
pub fn acting() -> Routes<Postgres> {
    Routes::default().on(TOLD, Acting::default())
}

impl Acting {
    fn call(&self, event: &Event<Step>) -> u32 {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.entry(event.id().to_string()).or_default();
        *count += 1;
        *count
    }
}

impl Handler<Postgres> for Acting {
    type Event = Step;

    async fn handle(&self, event: &Event<Step>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let (step, call) = (&event.payload, self.call(event));
        effect(event, &mut *tx).await?;
        if step.sleep > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(step.sleep)).await;
        }
        if step.times.is_none_or(|times| call <= times) {
            let done = run(step, tx).await;
            if step.again {
                let _ = effect(event, &mut *tx.unguarded().await?).await;
            }
            done.or_else(|error| if step.swallow { Ok(()) } else { Err(error) })?;
        }
        if step.reject {
            return Err(HandlerError::reject("told to reject"));
        }
        Ok(())
    }
}

async fn run(step: &Step, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    let Some(sql) = &step.sql else { return Ok(()) };
    for _ in 0..step.repeat {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.clone()));
        if let Some(after) = step.drop_after {
            let after = std::time::Duration::from_millis(after);
            tokio::time::timeout(after, query.execute(&mut *tx)).await??;
        } else if step.unguarded {
            query.execute(&mut *tx.unguarded().await?).await?;
        } else {
            query.execute(&mut *tx).await?;
        }
    }
    Ok(())
}

async fn effect<'c>(
    event: &Event<Step>,
    to: impl sqlx::Executor<'c, Database = Postgres>,
) -> HandlerResult {
    sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, $3, 0)")
        .bind(event.aggregate().aggregate_id())
        .bind(event.payload.n)
        .bind(event.id().to_string())
        .execute(to)
        .await?;
    Ok(())
}
