//! The limits on SQLite once more, through sqlx as handlers are: there each statement goes to a thread and
//! back. One claim for a batch, then a statement for each event, or one for all accounts.

use std::collections::HashSet;
use std::time::SystemTime;

use sqlx::{Connection as _, SqliteConnection};
use tokio::runtime::Handle;
use xtask::failure::{Explain as _, Outcome};

use super::Times;
use super::ending::Ending;
use super::kafka::subscribed;
use super::ours_sqlite::write_sums;
use super::record::{Deposited, Event};
use super::sqlite::{SETTINGS, UPSERT, gather};
use super::sums::Sums;
use crate::candidate::Candidate;
use crate::options::Order;

/// The places of ids that are claimed already; ids are one blob.
const KNOWN: &str = "SELECT json_group_array(value) FROM json_each(?2) WHERE EXISTS
    (SELECT 1 FROM inbox WHERE event_id = substr(?1, value * 16 + 1, 16))";
const CLAIM_ALL: &str = "INSERT INTO inbox (event_id)
    SELECT substr(?1, value * 16 + 1, 16) FROM json_each(?2) WHERE true ON CONFLICT DO NOTHING";

pub(super) fn work(order: &Order) -> Outcome<Times> {
    let doing = || "SQLite through sqlx".to_owned();
    let runtime = Handle::current();
    let connecting = SqliteConnection::connect(&order.database);
    let mut connection = runtime.block_on(connecting).explain(doing)?;
    runtime.block_on(sqlx::raw_sql(SETTINGS).execute(&mut connection)).explain(doing)?;
    let consumer = subscribed(order)?;
    let (began, ending) = (SystemTime::now(), Ending::of(order));
    let (mut settled, mut events) = (0, Vec::with_capacity(order.batch));
    while !ending.reached(settled) {
        gather(&consumer, order, &mut events)?;
        runtime.block_on(settle(&mut connection, order.candidate, &events)).explain(doing)?;
        settled += events.len() as u64;
    }
    Ok(Times { began, ended: SystemTime::now() })
}

async fn settle(
    connection: &mut SqliteConnection,
    way: Candidate,
    events: &[Event],
) -> sqlx::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let ids: Vec<u8> = events.iter().flat_map(|event| *event.id.as_bytes()).collect();
    let places: Vec<usize> = (0..events.len()).collect();
    let places = serde_json::to_string(&places).unwrap_or_default();
    // In one row, since each row is a way from sqlx's thread to this one.
    let known: String =
        sqlx::query_scalar(KNOWN).bind(&ids).bind(&places).fetch_one(&mut *tx).await?;
    let mut known: Vec<usize> = serde_json::from_str(&known).unwrap_or_default();
    known.sort_unstable();
    sqlx::query(CLAIM_ALL).bind(&ids).bind(&places).execute(&mut *tx).await?;
    let mut seen = HashSet::new();
    let fresh = events
        .iter()
        .enumerate()
        .filter(|(place, event)| known.binary_search(place).is_err() && seen.insert(event.id));
    let fresh = fresh.map(|(_, event)| &event.deposited);
    if way == Candidate::LimitSqlxSet {
        write_sums(&Sums::of(fresh), &mut *tx).await?;
    } else {
        for Deposited { account, amount, sequence } in fresh {
            let upsert = sqlx::query(UPSERT).bind(account).bind(amount).bind(sequence);
            upsert.execute(&mut *tx).await?;
        }
    }
    tx.commit().await
}
