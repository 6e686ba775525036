//! The limits on SQLite: one thread that polls and writes, what happens to be there as one transaction. There
//! is no way to the database, so statements are awaited or not: prepared ones are as fast as it goes.

use std::time::{Duration, SystemTime};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rusqlite::{CachedStatement, Connection};
use xtask::failure::{Explain as _, Outcome};

use super::Times;
use super::ending::Ending;
use super::kafka::{passing, subscribed};
use super::record::{Deposited, Event};
use super::sqlite_sqlx;
use super::sums::Sums;
use crate::candidate::Candidate;
use crate::options::Order;

const CLAIM: &str = "INSERT INTO inbox (event_id) VALUES (?1) ON CONFLICT DO NOTHING";

/// [`super::UPSERT`] in SQLite's words.
pub(super) const UPSERT: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    VALUES (?1, ?2, 1, ?3, 0)
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + 1,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + (excluded.last_sequence <> a.last_sequence + 1)";

/// One account's sums.
const UPSERT_SUM: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + excluded.events,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + excluded.disorder
            + (excluded.last_sequence - excluded.events <> a.last_sequence)";

/// Offsets are committed to Kafka once in so many batches.
const COMMIT_EVERY: u32 = 200;

/// As ours.
pub(super) const SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000";

pub(super) async fn run(order: Order) -> Outcome<Times> {
    let work = if order.candidate.through_sqlx() { sqlite_sqlx::work } else { work };
    let working = tokio::task::spawn_blocking(move || work(&order));
    working.await.explain(|| "the thread that works".to_owned())?
}

fn work(order: &Order) -> Outcome<Times> {
    let doing = || "SQLite".to_owned();
    let file = order.database.strip_prefix("sqlite:").unwrap_or(&order.database);
    let connection = Connection::open(file).explain(doing)?;
    connection.execute_batch(SETTINGS).explain(doing)?;
    let consumer = subscribed(order)?;
    let (began, ending) = (SystemTime::now(), Ending::of(order));
    let (mut settled, mut events) = (0, Vec::with_capacity(order.batch));
    for batch in 1.. {
        gather(&consumer, order, &mut events)?;
        settle(&connection, order.candidate, &events).explain(doing)?;
        settled += events.len() as u64;
        if ending.reached(settled) {
            break;
        }
        if batch % COMMIT_EVERY == 0 {
            #[expect(clippy::disallowed_methods, reason = "all that was polled is settled")]
            // Nothing to commit is no failure here, and the inbox knows what comes again.
            drop(consumer.commit_consumer_state(CommitMode::Async));
        }
    }
    Ok(Times { began, ended: SystemTime::now() })
}

/// What is there; the first record is waited for.
pub(super) fn gather(consumer: &BaseConsumer, order: &Order, events: &mut Vec<Event>) -> Outcome {
    events.clear();
    let mut patience = Duration::from_millis(10);
    while events.len() < order.batch {
        let Some(message) = consumer.poll(patience) else { break };
        let message = match message {
            Err(error) if passing(&error) => break,
            message => message.explain(|| format!("cannot consume {}", order.topic))?,
        };
        events.push(Event::read(&message)?);
        patience = Duration::ZERO;
    }
    Ok(())
}

fn settle(connection: &Connection, way: Candidate, events: &[Event]) -> rusqlite::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
    let mut claim = connection.prepare_cached(CLAIM)?;
    if way == Candidate::LimitSet {
        let mut fresh = Vec::with_capacity(events.len());
        for event in events {
            if claim.execute((event.id.as_bytes(),))? == 1 {
                fresh.push(event.deposited);
            }
        }
        write(&mut connection.prepare_cached(UPSERT_SUM)?, &Sums::of(fresh.iter()))?;
    } else {
        let mut upsert = connection.prepare_cached(UPSERT)?;
        for event in events {
            if claim.execute((event.id.as_bytes(),))? == 1 {
                let Deposited { account, amount, sequence } = event.deposited;
                upsert.execute((account, amount, sequence))?;
            }
        }
    }
    connection.prepare_cached("COMMIT")?.execute(())?;
    Ok(())
}

fn write(upsert: &mut CachedStatement<'_>, sums: &Sums) -> rusqlite::Result<()> {
    for row in sums.rows() {
        upsert.execute(row)?;
    }
    Ok(())
}
