//! What `cargo xtask engine` counts the instructions of: a backlog of events, the same each time, settled by one kind of
//! handler on an SQLite of its own.
//!
//! The consumer is the real one from the reader to COMMIT, with a log in memory in Kafka's place, and has one thread.

use std::{collections::HashMap, process::ExitCode, thread, time::Duration};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use inbox_consumer::{
    BatchHandler, Event, Handler, HandlerResult, Routes, Tx,
    config::{Config, Declared, DeclaredMode},
    statement,
    testing::{EventId, HandlerTest, Header, Record, TestError},
};
use outbox_core::header_names;
use serde::Deserialize;
use sqlx::Sqlite;
use tokio::runtime::Builder;

const PARTITIONS: u64 = 8;
/// Accounts, each an aggregate.
const ACCOUNTS: u64 = 10_000;
const EVENT_TYPE: &str = "Deposited";
/// 2026-01-01.
const TIME_MS: i64 = 1_767_225_600_000;
/// What makes a payload 300 bytes long.
const NOTE: usize = 230;
/// A transaction that takes long is made smaller than it could be, but not than this, nor than a drain has time for: so
/// all have the same size, however slow this machine is.
const BATCH: usize = 64;
const DRAIN: Duration = Duration::from_secs(100);

/// Callgrind is some fifty times slower than the processor, and it takes seconds even so.
const LONGEST: Duration = Duration::from_mins(5);

const TABLE: &str = "CREATE TABLE accounts (account INTEGER PRIMARY KEY, balance INTEGER NOT NULL,
    events INTEGER NOT NULL, last_sequence INTEGER NOT NULL, disorder INTEGER NOT NULL)";

const UPSERT: &str = "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    VALUES (?1, ?2, 1, ?3, ?3 <> 1)
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + 1,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + (excluded.last_sequence <> a.last_sequence + 1)";

/// Of sums, the accounts' first sequences among them.
const UPSERT_SUMS: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 4, value ->> 3 <> 1 FROM json_each(?1) WHERE true
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + excluded.events,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + (excluded.last_sequence - excluded.events <> a.last_sequence)";

const DECLARED: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT account, sum(amount), count(*), max(sequence), min(sequence) <> 1 FROM events WHERE true GROUP BY account
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + excluded.events,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + (excluded.last_sequence - excluded.events <> a.last_sequence)";

#[derive(Args, Debug)]
pub(crate) struct SettleArgs {
    kind: Kind,
    events: u64,
}

/// A kind of handler.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A statement for each event, awaited.
    Handler,
    /// The same, queued.
    Queued,
    /// A statement for a run.
    Batch,
    /// A declared statement for a run.
    SqlRun,
}

pub(crate) fn run(args: SettleArgs) -> ExitCode {
    // This thread is inside of a runtime with several; what is counted has one.
    match thread::spawn(|| settle(args)).join() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn settle(SettleArgs { kind, events }: SettleArgs) -> Result<(), TestError> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("inbox.db");
    let mut test = runtime.block_on(HandlerTest::sqlite_file(file))?;
    runtime.block_on(test.execute(TABLE))?;
    test.configure(|config| configure(config, kind));
    let backlog = backlog(events);
    let settling =
        async { tokio::time::timeout(LONGEST, test.settle(routes(kind), backlog)).await };
    runtime.block_on(settling).expect("settled in time")?;
    let wrong = runtime.block_on(test.number("SELECT sum(disorder) FROM accounts"))?;
    let settled = runtime.block_on(test.number("SELECT sum(events) FROM accounts"))?;
    assert_eq!((settled.cast_unsigned(), wrong), (events, 0), "effects, and those out of order");
    println!("{settled} events settled");
    Ok(())
}

fn configure(config: &mut Config, kind: Kind) {
    config.lanes.count = 16;
    config.batch.events_max = BATCH;
    (config.limits.drain_deadline, config.limits.close_deadline) = (DRAIN, DRAIN);
    config.kafka.session_timeout = DRAIN * 3;
    if kind == Kind::SqlRun {
        let columns = ["account", "amount", "sequence"];
        config.handlers.push(Declared {
            event_type: EVENT_TYPE.to_owned(),
            mode: DeclaredMode::Run,
            // It sums up.
            one_per_aggregate: Some(false),
            columns: columns.map(|name| (name.to_owned(), "int8".to_owned())).into(),
            sql: DECLARED.to_owned(),
            ..Declared::default()
        });
    }
}

fn routes(kind: Kind) -> Routes<Sqlite> {
    let none = Routes::default();
    match kind {
        Kind::Handler => none.on(EVENT_TYPE, Deposit),
        Kind::Queued => none.on(EVENT_TYPE, Queue),
        Kind::Batch => none.on_batch(EVENT_TYPE, Deposits),
        Kind::SqlRun => none,
    }
}

/// The records of each partition.
fn backlog(events: u64) -> Vec<Vec<Record>> {
    let mut partitions = vec![Vec::new(); usize::try_from(PARTITIONS).unwrap_or_default()];
    let mut sequences: HashMap<u64, u64> = HashMap::new();
    for event in 0..events {
        // In an order that looks like none.
        let account = event.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ACCOUNTS;
        let sequence = sequences.entry(account).or_default();
        *sequence += 1;
        let partition = usize::try_from(account % PARTITIONS).unwrap_or_default();
        partitions[partition].push(record(event, account, *sequence));
    }
    partitions
}

fn record(event: u64, account: u64, sequence: u64) -> Record {
    let id = uuid::Builder::from_random_bytes(u128::from(event).to_be_bytes()).into_uuid();
    let header =
        |(name, value): (&str, String)| Header { name: name.into(), value: Some(value.into()) };
    let headers = [
        (header_names::EVENT_ID, EventId::from(id).to_string()),
        (header_names::EVENT_TYPE, EVENT_TYPE.to_owned()),
        (header_names::AGGREGATE_TYPE, "Account".to_owned()),
        (header_names::OCCURRED_AT, TIME_MS.to_string()),
    ];
    let (amount, note) = (event % 1_000, "n".repeat(NOTE));
    let payload = format!(
        r#"{{"account":{account},"amount":{amount},"sequence":{sequence},"currency":"EUR","note":"{note}"}}"#
    );
    Record {
        key: Some(Bytes::from(account.to_string())),
        headers: headers.map(header).into(),
        payload: Some(Bytes::from(payload)),
        timestamp_ms: Some(TIME_MS),
    }
}

#[derive(Deserialize, Debug)]
struct Deposited {
    account: i64,
    amount: i64,
    sequence: i64,
}

struct Deposit;

impl Handler<Sqlite> for Deposit {
    type Event = Deposited;

    async fn handle(&self, event: &Event<Deposited>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let Deposited { account, amount, sequence } = event.payload;
        sqlx::query(UPSERT).bind(account).bind(amount).bind(sequence).execute(tx).await?;
        Ok(())
    }
}

struct Queue;

impl Handler<Sqlite> for Queue {
    type Event = Deposited;

    async fn handle(&self, event: &Event<Deposited>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let Deposited { account, amount, sequence } = event.payload;
        tx.queue(statement(UPSERT).bind(account).bind(amount).bind(sequence))?;
        Ok(())
    }
}

struct Deposits;

impl BatchHandler<Sqlite> for Deposits {
    type Event = Deposited;

    async fn handle(&self, events: &[Event<Deposited>], tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        // Account, balance, events, first and last sequence.
        let mut rows: Vec<[i64; 5]> = Vec::new();
        let mut places: HashMap<i64, usize> = HashMap::new();
        for Event { payload: Deposited { account, amount, sequence }, .. } in events {
            let place = *places.entry(*account).or_insert(rows.len());
            if place == rows.len() {
                rows.push([*account, 0, 0, *sequence, 0]);
            }
            let [_, balance, number, _, last] = &mut rows[place];
            (*balance, *number, *last) = (*balance + amount, *number + 1, *sequence);
        }
        let rows = serde_json::to_string(&rows).unwrap_or_default();
        sqlx::query(UPSERT_SUMS).bind(rows).execute(tx).await?;
        Ok(())
    }
}
