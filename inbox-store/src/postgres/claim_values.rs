//! What claims are bound to, and what they answer.

use inbox_engine::internal::{LaneMove, Offset};
use sqlx::{
    Postgres, Row,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use uuid::Uuid;

use crate::{
    port::{ClaimRequest, ClaimResult, InboxRow, Scope},
    shared::{count, sixteen, unexpected},
};

/// Of one value PostgreSQL would take what is missing for empty.
pub(super) fn check(request: &ClaimRequest) -> Result<(), sqlx::Error> {
    if request.fingerprints.len() == request.ids.len() {
        return Ok(());
    }
    Err(unexpected("a claim has another number of fingerprints than of ids"))
}

/// Whether the claim has one event.
pub(super) fn is_single(request: &ClaimRequest) -> bool {
    [request.ids.len(), request.aggregates.len(), request.lanes.len()] == [1; 3]
}

/// The parameters of [`CLAIM`](super::claim::CLAIM).
pub(super) fn bind(
    query: Query<'static, Postgres, PgArguments>,
    scope: &Scope,
    request: &ClaimRequest,
) -> Query<'static, Postgres, PgArguments> {
    query
        .bind(scope.consumer_ref)
        .bind(scope.partition_ref)
        .bind(uuids(&request.ids))
        .bind(request.fingerprints.as_flattened())
        .bind(&request.offsets)
        .bind(&request.aggregates)
        .bind(lanes(&request.lanes))
        .bind(prevs(&request.lanes))
        .bind(scope.epoch.0)
}

/// What [`CLAIM`](super::claim::CLAIM) answers.
pub(super) fn read(row: &PgRow) -> Result<ClaimResult, sqlx::Error> {
    let fresh: Vec<Uuid> = row.try_get("fresh")?;
    let known = match row.try_get::<Option<Vec<Uuid>>, _>("ids")? {
        Some(ids) => known(row, &ids)?,
        None => Vec::new(),
    };
    let fresh = fresh.into_iter().map(Uuid::into_bytes).collect();
    read_seen(row, ClaimResult { fresh, known, ..ClaimResult::default() })
}

/// What [`CLAIM_NEW`](super::claim::CLAIM_NEW) answers.
pub(super) fn read_new(row: &PgRow, request: &ClaimRequest) -> Result<ClaimResult, sqlx::Error> {
    if count(row.try_get("fresh")?) != request.ids.len() as u64 {
        // Something of the database's own drops rows: what is there would pass for what was there before.
        return Err(unexpected("inbox_events has taken another number of rows than were inserted"));
    }
    let fresh = request.ids.clone();
    read_seen(row, ClaimResult { fresh, ..ClaimResult::default() })
}

/// What every claim of several events answers.
fn read_seen(row: &PgRow, claimed: ClaimResult) -> Result<ClaimResult, sqlx::Error> {
    let held: Vec<Vec<u8>> = row.try_get("held")?;
    Ok(ClaimResult {
        tx: row.try_get("tx")?,
        held: held.iter().map(|key| sixteen(key)).collect::<Result<_, _>>()?,
        lanes_mine: count(row.try_get("lanes_mine")?),
        changed: row.try_get("changed")?,
        ..claimed
    })
}

/// The parameters of [`CLAIM_ONE`](super::claim::CLAIM_ONE).
pub(super) fn bind_one(
    query: Query<'static, Postgres, PgArguments>,
    scope: &Scope,
    request: &ClaimRequest,
) -> Query<'static, Postgres, PgArguments> {
    let step = request.lanes[0];
    query
        .bind(scope.consumer_ref)
        .bind(scope.partition_ref)
        .bind(Uuid::from_bytes(request.ids[0]))
        .bind(&request.fingerprints[0][..])
        .bind(request.offsets[0])
        .bind(&request.aggregates[0][..])
        .bind(i32::from(step.lane.0))
        .bind(step.prev.0)
        .bind(scope.epoch.0)
}

/// What [`CLAIM_ONE`](super::claim::CLAIM_ONE) answers.
pub(super) fn read_one(row: &PgRow, request: &ClaimRequest) -> Result<ClaimResult, sqlx::Error> {
    let (fresh, held): (bool, bool) = (row.try_get("fresh")?, row.try_get("held")?);
    Ok(ClaimResult {
        tx: row.try_get("tx")?,
        fresh: fresh.then_some(request.ids[0]).into_iter().collect(),
        held: held.then_some(request.aggregates[0]).into_iter().collect(),
        lanes_mine: u64::from(row.try_get::<bool, _>("mine")?),
        known: Vec::new(),
        changed: row.try_get("changed")?,
    })
}

/// The rows of ids that were there before, of one array for each column.
fn known(row: &PgRow, ids: &[Uuid]) -> Result<Vec<InboxRow>, sqlx::Error> {
    let fingerprints: Vec<Vec<u8>> = row.try_get("fingerprints")?;
    let hashes: Vec<bool> = row.try_get("sha256")?;
    let partitions: Vec<i64> = row.try_get("partitions")?;
    let offsets: Vec<i64> = row.try_get("offsets")?;
    let parked: Vec<bool> = row.try_get("parked")?;
    let rows = ids.iter().zip(fingerprints).zip(hashes).zip(partitions).zip(offsets).zip(parked);
    rows.map(|(((((id, fingerprint), sha256), partition_ref), offset), parked)| {
        let (id, fingerprint) = (id.into_bytes(), sixteen(&fingerprint)?);
        Ok(InboxRow { id, fingerprint, sha256, partition_ref, offset: Offset(offset), parked })
    })
    .collect()
}

pub(super) fn uuids(ids: &[[u8; 16]]) -> Vec<Uuid> {
    ids.iter().map(|id| Uuid::from_bytes(*id)).collect()
}

pub(super) fn lanes(moves: &[LaneMove]) -> Vec<i32> {
    moves.iter().map(|m| i32::from(m.lane.0)).collect()
}

pub(super) fn prevs(moves: &[LaneMove]) -> Vec<i64> {
    moves.iter().map(|m| m.prev.0).collect()
}
