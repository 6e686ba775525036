//! The live transaction: begin, claim, the second look, advance, end.

use inbox_engine::internal::{LaneMove, Rule};
use sqlx::{AssertSqlSafe, Row, Sqlite, SqliteConnection};

use super::{
    claim_values::{ask, bind, known, read},
    client::on,
    session, writer,
};
use crate::{
    json::{joined, moves, places},
    port::{Claim, ClaimRequest, ClaimResult, Recheck, Scope, TxLimits},
    shared::count,
};

/// ?1 consumer, ?2 partition, ?3 ids, ?4 their places, ?5 aggregates, ?6 their places, ?7 moves,
/// ?8 epoch, ?9 fingerprints, ?10 offsets. What the claim needs to know, in one row, then the insertion:
/// each statement, and each row, is a way from sqlx's thread to ours. Nobody else writes between the two.
/// CROSS JOIN keeps the array outside: SQLite's planner would go through all rows of the consumer, and
/// through the array for each of them.
///
/// Behind the lanes stands what a claim looks at beyond them.
macro_rules! claim {
    ($more:literal) => {
        concat!(
            r#"SELECT
(SELECT json_group_array(json_array(v.value, hex(e.fingerprint), e.sha256, e.partition_ref, e."offset", e.parked))
    FROM json_each(?4) v
    CROSS JOIN inbox_events e ON e.consumer_ref = ?1 AND e.event_id = substr(?3, v.value * 16 + 1, 16)) AS known,
(SELECT json_group_array(value) FROM json_each(?6) WHERE
    EXISTS (SELECT 1 FROM inbox_parked q WHERE q.partition_ref = ?2) AND EXISTS
    (SELECT 1 FROM inbox_parked q WHERE q.partition_ref = ?2 AND q.aggregate_key = substr(?5, value * 16 + 1, 16))) AS held,
(SELECT count(*) FROM json_each(?7) v CROSS JOIN inbox_lanes l ON l.partition_ref = ?2 AND l.lane = v.value ->> 0
    WHERE l.epoch = ?8 AND l.last_offset = v.value ->> 1) AS lanes_mine"#,
            $more,
            r#";
INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, "offset", sha256)
SELECT ?1, substr(?3, key * 16 + 1, 16), substr(?9, key * 16 + 1, 16), ?2, value, 1 FROM json_each(?10)
WHERE true ON CONFLICT DO NOTHING"#
        )
    };
}

pub(super) const CLAIM: &str = claim!("");

/// ?1 consumer, ?2 partition, ?3 ids, ?4 their places, ?5 moves, ?6 epoch. One row, as in [`CLAIM`].
pub(super) const RECHECK: &str = r#"SELECT
(SELECT json_group_array(json_array(v.value, hex(e.fingerprint), e.sha256, e.partition_ref, e."offset", e.parked))
    FROM json_each(?4) v
    CROSS JOIN inbox_events e ON e.consumer_ref = ?1 AND e.event_id = substr(?3, v.value * 16 + 1, 16)) AS known,
(SELECT count(*) FROM json_each(?5) v CROSS JOIN inbox_lanes l ON l.partition_ref = ?2 AND l.lane = v.value ->> 0
    WHERE l.epoch = ?6 AND l.last_offset = v.value ->> 1) AS lanes_mine"#;

/// ?1 partition, ?2 moves, ?3 epoch.
macro_rules! advance {
    ($more:literal) => {
        concat!(
            "WITH v AS MATERIALIZED (
    SELECT value ->> 0 AS lane, value ->> 1 AS prev, value ->> 2 AS new, value ->> 3 AS le FROM json_each(?2))
UPDATE inbox_lanes AS l SET last_offset = v.new, last_leader_epoch = v.le FROM v
WHERE l.partition_ref = ?1 AND l.lane = v.lane AND l.epoch = ?3 AND l.last_offset = v.prev",
            $more
        )
    };
}

pub(super) const ADVANCE: &str = advance!("");

pub(super) use {advance, claim};

const PLACE_OF: &str =
    r#"SELECT topic || '/' || "partition" FROM inbox_partitions WHERE partition_ref = ?1"#;

impl Claim for Sqlite {
    async fn begin(conn: &mut SqliteConnection, limits: &TxLimits) -> Result<(), sqlx::Error> {
        session::begin(conn, limits).await
    }

    async fn claim(
        conn: &mut SqliteConnection,
        scope: &Scope,
        request: &ClaimRequest,
    ) -> Result<ClaimResult, sqlx::Error> {
        let tx = writer::session(conn).await?.tx();
        let (row, inserted) = ask(conn, bind(CLAIM, scope, request)).await?;
        read(&row, inserted, tx, request)
    }

    async fn recheck(
        conn: &mut SqliteConnection,
        scope: &Scope,
        ids: &[[u8; 16]],
        lanes: &[LaneMove],
    ) -> Result<Recheck, sqlx::Error> {
        let row = sqlx::query(RECHECK)
            .bind(scope.consumer_ref)
            .bind(scope.partition_ref)
            .bind(joined(ids))
            .bind(places(ids.len()))
            .bind(moves(lanes))
            .bind(scope.epoch.0)
            .fetch_one(on(conn))
            .await?;
        Ok(Recheck {
            known: known(ids, row.try_get("known")?)?,
            lanes_mine: count(row.try_get("lanes_mine")?),
        })
    }

    async fn advance(
        conn: &mut SqliteConnection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
        _changed: Option<i64>,
    ) -> Result<u64, sqlx::Error> {
        release(conn, tx).await?;
        let done = sqlx::query(ADVANCE)
            .bind(scope.partition_ref)
            .bind(moves(lanes))
            .bind(scope.epoch.0)
            .execute(on(conn))
            .await?;
        Ok(done.rows_affected())
    }

    /// Nobody counts by table.
    async fn changed(_conn: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
        Ok(None)
    }

    async fn same_transaction(conn: &mut SqliteConnection, tx: &str) -> Result<bool, sqlx::Error> {
        Ok(writer::session(conn).await?.tx().as_deref() == Some(tx))
    }

    async fn place_of(
        conn: &mut SqliteConnection,
        partition_ref: i64,
    ) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar(PLACE_OF).bind(partition_ref).fetch_optional(conn).await
    }

    async fn commit(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        session::commit(conn).await
    }

    async fn rollback(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        session::rollback(conn).await
    }
}

/// The savepoint is there exactly as long as the transaction that set it.
pub(super) async fn release(conn: &mut SqliteConnection, tx: &str) -> Result<(), sqlx::Error> {
    if Rule::SameTransactionAtAdvance.on() {
        let release = AssertSqlSafe(format!("RELEASE SAVEPOINT \"{tx}\""));
        sqlx::raw_sql(release).execute(conn).await?;
    }
    Ok(())
}
