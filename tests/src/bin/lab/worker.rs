//! The consumer that tests and the soak start as a process: the commands of a real one, with handlers
//! that do what an event's payload tells them.

use std::{hint::black_box, process::ExitCode, time::Duration};

use inbox_consumer::{
    BatchHandler, Event, GapEnd, Handler, HandlerError, HandlerResult, Tx, VersionPolicy, cli,
};
use outbox_core::{CodecError, Decode, Json, Payload, Preparation};
use serde::Deserialize;
use sqlx::{Postgres, Sqlite};

/// What a handler that takes all memory takes at most: a process without a limit is to survive it.
const MEMORY_MAX: usize = 64 << 30;

/// `n` is the event's place in its aggregate; `act` what the handler does besides its effect.
#[derive(Deserialize)]
struct Step {
    n: i64,
    #[serde(default)]
    act: Option<Act>,
    /// How long it takes after its effect.
    #[serde(default)]
    sleep_ms: u64,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Act {
    Abort,
    /// Ends the process after a while, but not that of a trial.
    AbortForGood,
    /// Fails while the table `broken` has it, and then ends the process.
    AbortMended,
    Block,
    Commit,
    Fail,
    Mendable,
    /// Takes memory until there is none.
    Oom,
    /// Calls itself until its stack is full.
    Overflow,
    Panic,
    Reject,
    Sleep,
    /// A statement that never ends.
    Statement,
}

/// Writes the effect of one event: a row without any unique key, and the account's running state.
struct Count;

impl Handler<Postgres> for Count {
    type Event = Step;

    async fn handle(&self, event: &Event<Step>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, $3, $4)")
            .bind(event.aggregate().aggregate_id())
            .bind(event.payload.n)
            .bind(event.id().to_string())
            .bind(i64::from(std::process::id()))
            .execute(&mut *tx)
            .await?;
        // A sleep of no time would take a millisecond.
        if event.payload.sleep_ms > 0 {
            tokio::time::sleep(Duration::from_millis(event.payload.sleep_ms)).await;
        }
        match event.payload.act {
            Some(Act::Mendable) => mendable(event, tx).await,
            Some(Act::AbortMended) => {
                mendable(event, tx).await?;
                std::process::abort()
            }
            Some(Act::Commit) => {
                // Not its own to end.
                sqlx::raw_sql("COMMIT").execute(&mut *tx.unguarded().await?).await?;
                Ok(())
            }
            Some(Act::Statement) => {
                sqlx::query("SELECT pg_sleep(86400)").execute(&mut *tx).await?;
                Ok(())
            }
            other => act(other).await,
        }
    }
}

/// The same on SQLite, for what has nothing to do with the database.
impl Handler<Sqlite> for Count {
    type Event = Step;

    async fn handle(&self, event: &Event<Step>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES (?1, ?2, ?3, ?4)")
            .bind(event.aggregate().aggregate_id())
            .bind(event.payload.n)
            .bind(event.id().to_string())
            .bind(i64::from(std::process::id()))
            .execute(&mut *tx)
            .await?;
        tokio::time::sleep(Duration::from_millis(event.payload.sleep_ms)).await;
        act(event.payload.act).await
    }
}

/// Fails while the table `broken` has the event, or with no number its whole aggregate.
async fn mendable(event: &Event<Step>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    let broken = tests::broken(event.aggregate().aggregate_id(), event.payload.n, tx).await?;
    if broken { Err(HandlerError::retry("broken")) } else { Ok(()) }
}

async fn act(act: Option<Act>) -> HandlerResult {
    match act {
        // These are done where they have the transaction.
        None | Some(Act::AbortMended | Act::Commit | Act::Mendable | Act::Statement) => Ok(()),
        Some(Act::Abort) => std::process::abort(),
        Some(Act::AbortForGood) => {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if std::env::args().any(|argument| argument == "--trial") {
                return Ok(());
            }
            std::process::abort()
        }
        Some(Act::Block) => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        Some(Act::Fail) => Err(HandlerError::retry("told to fail")),
        Some(Act::Oom) => Err(HandlerError::retry(format!("{} were not too much", devour()))),
        Some(Act::Overflow) => Err(HandlerError::retry(overflow(0).to_string())),
        Some(Act::Panic) => panic!("told to panic"),
        Some(Act::Reject) => Err(HandlerError::reject("told to reject")),
        Some(Act::Sleep) => {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(())
        }
    }
}

/// JSON, whose reader ends the process while it gets ready for a payload that says so.
struct Fetched;

impl Decode<Step> for Fetched {
    fn decode(&self, payload: &Payload<'_>) -> Result<Step, CodecError> {
        Json.decode(payload)
    }

    fn prepare(&self, payload: &Payload<'_>) -> Option<Preparation<'_>> {
        let step: Step = Json.decode(payload).ok()?;
        let aborts = matches!(step.act, Some(Act::Abort));
        aborts.then(|| -> Preparation<'_> { Box::pin(async { end() }) })
    }
}

fn end() -> Result<(), CodecError> {
    std::process::abort()
}

/// Takes addresses, not pages: the limit of a process is on the first, and the machine is not to suffer.
fn devour() -> usize {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    while taken.iter().map(Vec::capacity).sum::<usize>() < MEMORY_MAX {
        taken.push(black_box(Vec::with_capacity(64 << 20)));
    }
    taken.len()
}

/// Never comes back: no stack has so many frames.
fn overflow(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if frame[0] == u64::MAX { 0 } else { overflow(frame[0] + 1) + frame[1] }
}

/// The same as a whole run in one statement.
struct CountAll;

impl BatchHandler<Postgres> for CountAll {
    type Event = Step;

    async fn handle(&self, events: &[Event<Step>], tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let aggregates: Vec<&str> = events.iter().map(|e| e.aggregate().aggregate_id()).collect();
        let steps: Vec<i64> = events.iter().map(|e| e.payload.n).collect();
        let ids: Vec<String> = events.iter().map(|e| e.id().to_string()).collect();
        sqlx::query(
            "INSERT INTO effects (aggregate, n, event_id, pid)
             SELECT a, n, id, $4 FROM unnest($1::text[], $2::bigint[], $3::text[])
             WITH ORDINALITY AS e(a, n, id, ord) ORDER BY ord",
        )
        .bind(aggregates)
        .bind(steps)
        .bind(ids)
        .bind(i64::from(std::process::id()))
        .execute(&mut *tx)
        .await?;
        Ok(())
    }
}

/// Runs the command line of the consumer.
pub(crate) async fn run() -> ExitCode {
    // As the stock binary, which is another package's, so that no test has to build it.
    if std::env::var_os("STOCK").is_some() {
        return cli::stock().await;
    }
    if std::env::var_os("SQLITE").is_some() {
        return cli::main::<Sqlite>(|routes| routes.on("Counted", Count)).await;
    }
    cli::main::<Postgres>(|routes| {
        let routes = routes.on("Counted", Count).on_batch("CountedAll", CountAll);
        let routes = routes.on_with("Fetched", Fetched, Count);
        if std::env::var_os("GAP").is_none() {
            return routes;
        }
        let hour = Duration::from_hours(1);
        routes.versions("Counted", VersionPolicy::gap(hour, GapEnd::Park).first(1))
    })
    .await
}
