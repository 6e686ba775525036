//! Parked events released: found, locked, marked, removed, promoted, or given a new time.

use std::future::Future;

use inbox_engine::internal::{LeaderEpoch, Offset};
use uuid::Uuid;

use super::{Columns, SqlClient, values};
use crate::{
    port::{
        Scope,
        release::{Act, DueQueue, DueState, Queued, Releases, Requeued},
    },
    shared::{intent, lane},
};

/// Discards that one release carries out beyond the events that it runs.
const DISCARDS_MAX: i64 = 500;

/// The texts of releases.
pub(crate) struct ReleaseTexts {
    /// 1 partition, 2 aggregate, 3 events, 4 discards beyond them. Locked.
    pub(crate) queue: &'static str,
    /// 1 partition, 2 numbers.
    pub(crate) mark: &'static str,
    /// 1 partition, 2 numbers.
    pub(crate) unmark: &'static str,
    /// 1 partition, 2 numbers.
    pub(crate) remove: &'static str,
    /// 1 partition, 2 aggregate, 3 id, 4 fingerprint, 5 whether that is of SHA-256, 6 the one of the other hash.
    /// Locked.
    pub(crate) copies: &'static str,
    /// 1 partition, 2 aggregate.
    pub(crate) promote: &'static str,
}

/// A database with releases. The functions write several rows, in the open transaction.
pub(crate) trait ReleaseSql: SqlClient {
    fn releases() -> &'static ReleaseTexts;
    /// Marks ids in the inbox as settled from now on. One that is parked once more (a mismatch shares it) stays
    /// spared by the pruner.
    fn settle(
        conn: &mut Self::Connection,
        consumer_ref: i64,
        events: &[(i64, [u8; 16])],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    fn write_requeued(
        conn: &mut Self::Connection,
        partition_ref: i64,
        events: &[Requeued],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    fn write_acts(
        conn: &mut Self::Connection,
        scope: &Scope,
        acts: &[Act],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

impl<DB: ReleaseSql> Releases for DB {
    async fn queue(
        conn: &mut DB::Connection,
        scope: &Scope,
        aggregate: &[u8; 16],
        max: usize,
    ) -> Result<Vec<Queued>, sqlx::Error> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let values = values![scope.partition_ref, aggregate, max, DISCARDS_MAX];
        let rows = DB::fetch_all(conn, DB::releases().queue, values).await?;
        rows.iter().map(read_queued).collect()
    }

    async fn mark(
        conn: &mut DB::Connection,
        scope: &Scope,
        seqs: &[i64],
    ) -> Result<u64, sqlx::Error> {
        DB::execute(conn, DB::releases().mark, values![scope.partition_ref, seqs]).await
    }

    async fn unmark(
        conn: &mut DB::Connection,
        scope: &Scope,
        seqs: &[i64],
    ) -> Result<(), sqlx::Error> {
        let values = values![scope.partition_ref, seqs];
        DB::execute(conn, DB::releases().unmark, values).await.map(drop)
    }

    async fn copies(
        conn: &mut DB::Connection,
        scope: &Scope,
        aggregate: &[u8; 16],
        row: &Queued,
        other: &[u8; 16],
    ) -> Result<Vec<Queued>, sqlx::Error> {
        let values = values![
            scope.partition_ref,
            aggregate,
            Uuid::from_bytes(row.id),
            &row.fingerprint,
            row.sha256,
            other,
        ];
        let rows = DB::fetch_all(conn, DB::releases().copies, values).await?;
        rows.iter().map(read_queued).collect()
    }

    async fn remove(
        conn: &mut DB::Connection,
        scope: &Scope,
        events: &[(i64, [u8; 16])],
    ) -> Result<u64, sqlx::Error> {
        let seqs: Vec<i64> = events.iter().map(|(seq, _)| *seq).collect();
        let values = values![scope.partition_ref, &seqs];
        let removed = DB::execute(conn, DB::releases().remove, values).await?;
        DB::settle(conn, scope.consumer_ref, events).await?;
        Ok(removed)
    }

    async fn promote(
        conn: &mut DB::Connection,
        scope: &Scope,
        aggregate: &[u8; 16],
    ) -> Result<(), sqlx::Error> {
        let values = values![scope.partition_ref, aggregate];
        DB::execute(conn, DB::releases().promote, values).await.map(drop)
    }

    async fn requeue(
        conn: &mut DB::Connection,
        scope: &Scope,
        events: &[Requeued],
    ) -> Result<(), sqlx::Error> {
        DB::write_requeued(conn, scope.partition_ref, events).await
    }

    async fn audit(
        conn: &mut DB::Connection,
        scope: &Scope,
        acts: &[Act],
    ) -> Result<(), sqlx::Error> {
        DB::write_acts(conn, scope, acts).await
    }
}

/// A queue that has something to do.
pub(crate) fn due(row: &impl Columns) -> Result<DueQueue, sqlx::Error> {
    Ok(DueQueue {
        lane: lane(row.read("lane")?)?,
        aggregate: row.read("aggregate_key")?,
        offset: Offset(row.read("offset")?),
        record: row.read("record")?,
    })
}

fn read_queued(row: &impl Columns) -> Result<Queued, sqlx::Error> {
    let number = |n: i32| u32::try_from(n).unwrap_or_default();
    let id: Uuid = row.read("event_id")?;
    let (asked, by): (Option<String>, Option<String>) =
        (row.read("intent")?, row.read("intent_by")?);
    Ok(Queued {
        seq: row.read("parked_seq")?,
        id: id.into_bytes(),
        fingerprint: row.read("fingerprint")?,
        sha256: row.read("sha256")?,
        offset: Offset(row.read("offset")?),
        leader_epoch: LeaderEpoch(row.read("leader_epoch")?),
        reason: row.read("reason")?,
        attempts: number(row.read("attempts")?),
        releases: number(row.read("releases")?),
        due_state: due_state(row.read("turn")?),
        intent: intent(asked.as_deref(), by.as_deref()),
        event_type: row.read("event_type")?,
        aggregate_text: row.read("aggregate")?,
        errors: row.read("errors")?,
        record: row.read("record")?,
    })
}

fn due_state(number: i32) -> DueState {
    match number {
        0 => DueState::Follows,
        1 => DueState::Due,
        _ => DueState::Later,
    }
}
