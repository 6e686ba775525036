//! What claims are bound to, and what they answer.

use futures::TryStreamExt as _;
use inbox_engine::internal::{Offset, Rule};
use serde::de::DeserializeOwned;
use sqlx::{
    Either, Executor as _, Row, Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::client::on;
use crate::{
    json::{joined, moves, numbers, places},
    port::{ClaimRequest, ClaimResult, InboxRow, Scope},
    shared::{count, unexpected},
};

/// The parameters of [`CLAIM`](super::claim::CLAIM).
pub(super) fn bind(
    text: &'static str,
    scope: &Scope,
    request: &ClaimRequest,
) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(text)
        .bind(scope.consumer_ref)
        .bind(scope.partition_ref)
        .bind(joined(&request.ids))
        .bind(places(request.ids.len()))
        .bind(joined(&request.aggregates))
        .bind(places(request.aggregates.len()))
        .bind(moves(&request.lanes))
        .bind(scope.epoch.0)
        .bind(joined(&request.fingerprints))
        .bind(numbers(request.offsets.iter().copied()))
}

/// The row that [`CLAIM`](super::claim::CLAIM) answers, and how many ids it has inserted.
pub(super) async fn ask(
    conn: &mut SqliteConnection,
    query: Query<'_, Sqlite, SqliteArguments>,
) -> Result<(SqliteRow, u64), sqlx::Error> {
    let (mut row, mut inserted) = (None, 0);
    let mut answers = on(conn).fetch_many(query);
    while let Some(answer) = answers.try_next().await? {
        match answer {
            Either::Left(done) => inserted = done.rows_affected(),
            Either::Right(found) => row = Some(found),
        }
    }
    Ok((row.ok_or_else(|| unexpected(NO_ARRAY))?, inserted))
}

/// What the answer means.
pub(super) fn read(
    row: &SqliteRow,
    inserted: u64,
    tx: Option<String>,
    request: &ClaimRequest,
) -> Result<ClaimResult, sqlx::Error> {
    let mut known = known(&request.ids, row.try_get("known")?)?;
    known.sort_unstable_by_key(|known| known.id);
    let mut fresh = request.ids.clone();
    fresh.retain(|id| known.binary_search_by_key(id, |known| known.id).is_err());
    fresh.dedup();
    if inserted != fresh.len() as u64 && Rule::Inbox.on() {
        return Err(unexpected("a claim inserted other ids than it found missing"));
    }
    Ok(ClaimResult {
        tx: tx.ok_or_else(|| unexpected("a claim was made outside of a transaction"))?,
        fresh,
        held: named(&request.aggregates, row.try_get("held")?)?,
        lanes_mine: count(row.try_get("lanes_mine")?),
        known,
        changed: None,
    })
}

pub(super) const NO_ARRAY: &str = "SQLite's answer is not the array that was asked for";

pub(super) fn parse<T: DeserializeOwned>(array: &str) -> Result<T, sqlx::Error> {
    serde_json::from_str(array).map_err(|_| unexpected(NO_ARRAY))
}

/// The rows of ids at the places of an array.
pub(super) fn known(ids: &[[u8; 16]], array: &str) -> Result<Vec<InboxRow>, sqlx::Error> {
    let rows: Vec<(usize, String, i64, i64, i64, i64)> = parse(array)?;
    let rows =
        rows.into_iter().map(|(place, fingerprint, sha256, partition_ref, offset, parked)| {
            let fingerprint = u128::from_str_radix(&fingerprint, 16).ok();
            let both = ids.get(place).copied().zip(fingerprint);
            let (id, fingerprint) = both.ok_or_else(|| unexpected(NO_ARRAY))?;
            let fingerprint = fingerprint.to_be_bytes();
            let (sha256, parked, offset) = (sha256 != 0, parked != 0, Offset(offset));
            Ok(InboxRow { id, fingerprint, sha256, partition_ref, offset, parked })
        });
    rows.collect()
}

/// The values at the places of an array.
fn named(values: &[[u8; 16]], array: &str) -> Result<Vec<[u8; 16]>, sqlx::Error> {
    let places: Vec<usize> = parse(array)?;
    let named = places.into_iter().map(|place| values.get(place).copied());
    named.collect::<Option<_>>().ok_or_else(|| unexpected(NO_ARRAY))
}
