//! The live transaction: begin, claim, the second look, advance, end.

use inbox_engine::internal::{LaneMove, Offset};
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use super::{
    Moves,
    claim_values::{
        bind, bind_one, check, is_single, lanes, prevs, read, read_new, read_one, uuids,
    },
    sent::on,
    session,
};
use crate::{
    end,
    port::{Claim, ClaimRequest, ClaimResult, InboxRow, Recheck, Scope, TxLimits, deadline},
    shared::{count, sixteen},
};

/// Rows of `inbox_events` and `inbox_lanes` that the session has changed: it counts them for its statistics, so that asking costs
/// nothing. Those of transactions before that it has not reported yet are among them. Without `track_counts` nobody
/// counts.
macro_rules! changed {
    () => {
        "CASE WHEN current_setting('track_counts')::boolean THEN
        pg_stat_get_xact_tuples_inserted('inbox_events'::regclass)
        + pg_stat_get_xact_tuples_updated('inbox_events'::regclass)
        + pg_stat_get_xact_tuples_deleted('inbox_events'::regclass)
        + pg_stat_get_xact_tuples_inserted('inbox_lanes'::regclass)
        + pg_stat_get_xact_tuples_updated('inbox_lanes'::regclass)
        + pg_stat_get_xact_tuples_deleted('inbox_lanes'::regclass) END"
    };
}

/// What every claim of several events says of aggregates, lanes and the session.
macro_rules! seen {
    () => {
        concat!(
            r#"ARRAY(SELECT k FROM unnest($6::bytea[]) k WHERE
        EXISTS (SELECT FROM inbox_parked q WHERE q.partition_ref = $2) AND EXISTS
        (SELECT FROM inbox_parked q WHERE q.partition_ref = $2 AND q.aggregate_key = k)) AS held,
    (SELECT count(*) FROM inbox_lanes l
        JOIN unnest($7::integer[], $8::bigint[]) v(lane, prev) USING (lane)
        WHERE l.partition_ref = $2 AND l.slot = v.prev >> 8 AND l.epoch = $9 AND l.last_offset = v.prev) AS lanes_mine,
    "#,
            changed!(),
            " AS changed"
        )
    };
}

/// $1 consumer, $2 partition, $3 ids, $4 fingerprints, $5 offsets, $6 aggregates, $7 lanes, $8 prevs,
/// $9 epoch. Whether the partition has parked events at all is asked once, not for each aggregate.
/// Fingerprints come as one value, 16 bytes after 16 bytes: PostgreSQL takes an array in one by one. Rows
/// of ids that were there before come along: rows and lanes are of one view.
///
/// What is known is looked up first and the rest inserted plainly: `ON CONFLICT` looks each row up by itself
/// and confirms it in the log, a quarter of the claim's time. An id that another transaction commits in
/// between breaks the claim (23505 on the inbox): a conflict, and the next claim knows it. The selection
/// around $3 hides how many ids there are from the planner, which would read the whole table for many.
///
/// What stands before and behind `k` is a claim's that looks at more.
macro_rules! claim {
    ($more:literal, $from:literal) => {
        concat!(
            r#"WITH known AS MATERIALIZED (
    SELECT e.event_id, e.fingerprint, e.sha256, e.partition_ref, e."offset", e.parked FROM inbox_events e
    WHERE e.consumer_ref = $1 AND e.event_id = ANY((SELECT $3::uuid[])::uuid[])),
ins AS (
    INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, "offset", sha256)
    SELECT $1, e.id, substring($4::bytea FROM (e.nth::integer - 1) * 16 + 1 FOR 16), $2, e.off, true
    FROM unnest($3, $5::bigint[]) WITH ORDINALITY e(id, off, nth)
    WHERE e.id NOT IN (SELECT event_id FROM known) RETURNING event_id)
SELECT pg_current_xact_id()::text AS tx,
    ARRAY(SELECT event_id FROM ins) AS fresh,
    "#,
            seen!(),
            ", ",
            $more,
            r#"k.*
FROM (SELECT array_agg(event_id) AS ids, array_agg(fingerprint) AS fingerprints,
        array_agg(sha256) AS sha256,
        array_agg(partition_ref) AS partitions, array_agg("offset") AS offsets,
        array_agg(parked) AS parked FROM known) k"#,
            $from
        )
    };
}

pub(super) const CLAIM: &str = claim!("", "");

/// [`CLAIM`] of ids that are thought to be new: nothing is looked up, and one that is there breaks it. It takes a
/// quarter less. They are counted before the session says what it has changed.
pub(super) const CLAIM_NEW: &str = concat!(
    r#"WITH ins AS (
    INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, "offset", sha256)
    SELECT $1, e.id, substring($4::bytea FROM (e.nth::integer - 1) * 16 + 1 FOR 16), $2, e.off, true
    FROM unnest($3::uuid[], $5::bigint[]) WITH ORDINALITY e(id, off, nth) RETURNING 1)
SELECT pg_current_xact_id()::text AS tx,
    (SELECT count(*) FROM ins) AS fresh,
    "#,
    seen!()
);

/// The claim of one event: the same, without arrays. A quiet consumer has no other transactions, and waits
/// for its statements one by one: this one takes 0.09 ms instead of 0.14.
macro_rules! claim_one {
    ($more:literal) => {
        concat!(
            r#"WITH ins AS (
    INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, "offset", sha256)
    VALUES ($1, $3, $4, $2, $5, true)
    ON CONFLICT DO NOTHING RETURNING event_id)
SELECT pg_current_xact_id()::text AS tx,
    EXISTS (SELECT FROM ins) AS fresh,
    EXISTS (SELECT FROM inbox_parked q WHERE q.partition_ref = $2 AND q.aggregate_key = $6) AS held,
    EXISTS (SELECT FROM inbox_lanes l
        WHERE l.partition_ref = $2 AND l.lane = $7 AND l.slot = $8::bigint >> 8 AND l.epoch = $9 AND l.last_offset = $8) AS mine,
    "#,
            changed!(),
            " AS changed",
            $more
        )
    };
}

pub(super) const CLAIM_ONE: &str = claim_one!("");

/// $1 consumer, $2 partition, $3 ids, $4 lanes, $5 prevs, $6 epoch. The count stands in a row of its
/// own, so that it is there when no id is.
pub(super) const RECHECK: &str = r#"SELECT e.event_id, e.fingerprint, e.sha256, e.partition_ref, e."offset", e.parked, m.lanes_mine
FROM (SELECT count(*) AS lanes_mine
        FROM inbox_lanes l JOIN unnest($4::integer[], $5::bigint[]) v(lane, prev) USING (lane)
        WHERE l.partition_ref = $2 AND l.slot = v.prev >> 8 AND l.epoch = $6 AND l.last_offset = v.prev) m
LEFT JOIN inbox_events e ON e.consumer_ref = $1 AND e.event_id = ANY($3)"#;

/// $1 partition, $2 epoch, $3 transaction, $4 lanes, $5 prevs, $6 news, $7 leader epochs, $8 the rows of
/// `inbox_events` and `inbox_lanes` that the session may have changed. The selection around these asks once, before
/// the statement changes lanes itself.
macro_rules! locked {
    () => {
        concat!(
            "WITH k AS MATERIALIZED (
    SELECT l.lane, v.prev, v.new, v.le FROM inbox_lanes l
    JOIN unnest($4::integer[], $5::bigint[], $6::bigint[], $7::integer[]) v(lane, prev, new, le) USING (lane)
    WHERE l.partition_ref = $1 AND l.epoch = $2 AND l.slot = v.prev >> 8 AND l.last_offset = v.prev
    AND pg_current_xact_id()::text = $3
    AND ($8::bigint IS NULL OR coalesce((SELECT ",
            changed!(),
            ") = $8, true))
    ORDER BY l.lane FOR UPDATE OF l)"
        )
    };
}

/// Behind [`locked`].
macro_rules! moved {
    () => {
        "UPDATE inbox_lanes l SET last_offset = k.new, slot = k.new >> 8, last_leader_epoch = k.le FROM k
WHERE l.partition_ref = $1 AND l.lane = k.lane AND l.epoch = $2 AND l.slot = k.prev >> 8 AND l.last_offset = k.prev"
    };
}

pub(super) const ADVANCE: &str = concat!(locked!(), "\n", moved!());

/// The advance of one lane: 0.07 ms instead of 0.10. A row that somebody else holds is looked at again once
/// it is free, so a newer epoch is seen.
pub(super) const ADVANCE_ONE: &str = concat!(
    "UPDATE inbox_lanes l SET last_offset = $6, slot = $6::bigint >> 8, last_leader_epoch = $7
WHERE l.partition_ref = $1 AND l.lane = $4 AND l.epoch = $2 AND l.slot = $5::bigint >> 8 AND l.last_offset = $5
    AND pg_current_xact_id()::text = $3
    AND ($8::bigint IS NULL OR coalesce(",
    changed!(),
    " = $8, true))"
);

pub(super) use {changed, claim, claim_one, locked, moved, seen};

const CHANGED: &str = concat!("SELECT ", changed!());

const SAME_TRANSACTION: &str =
    "SELECT coalesce(pg_current_xact_id_if_assigned()::text = $1, false)";

const PLACE_OF: &str =
    "SELECT topic || '/' || partition FROM inbox_partitions WHERE partition_ref = $1";

impl Claim for Postgres {
    async fn begin(conn: &mut PgConnection, limits: &TxLimits) -> Result<(), sqlx::Error> {
        session::begin(conn, limits).await
    }

    async fn claim(
        conn: &mut PgConnection,
        scope: &Scope,
        request: &ClaimRequest,
    ) -> Result<ClaimResult, sqlx::Error> {
        check(request)?;
        if is_single(request) {
            let row = bind_one(sqlx::query(CLAIM_ONE), scope, request).fetch_one(on(conn)).await?;
            return read_one(&row, request);
        }
        if request.expects_new {
            let row = bind(sqlx::query(CLAIM_NEW), scope, request).fetch_one(on(conn)).await?;
            return read_new(&row, request);
        }
        let row = bind(sqlx::query(CLAIM), scope, request).fetch_one(on(conn)).await?;
        read(&row)
    }

    async fn recheck(
        conn: &mut PgConnection,
        scope: &Scope,
        ids: &[[u8; 16]],
        moves: &[LaneMove],
    ) -> Result<Recheck, sqlx::Error> {
        let rows = sqlx::query(RECHECK)
            .bind(scope.consumer_ref)
            .bind(scope.partition_ref)
            .bind(uuids(ids))
            .bind(lanes(moves))
            .bind(prevs(moves))
            .bind(scope.epoch.0)
            .fetch_all(on(conn))
            .await?;
        let mut recheck = Recheck::default();
        for row in rows {
            recheck.lanes_mine = count(row.try_get("lanes_mine")?);
            let Some(id) = row.try_get::<Option<Uuid>, _>("event_id")? else { continue };
            recheck.known.push(InboxRow {
                id: id.into_bytes(),
                fingerprint: sixteen(row.try_get("fingerprint")?)?,
                sha256: row.try_get("sha256")?,
                partition_ref: row.try_get("partition_ref")?,
                offset: Offset(row.try_get("offset")?),
                parked: row.try_get("parked")?,
            });
        }
        Ok(recheck)
    }

    async fn advance(
        conn: &mut PgConnection,
        scope: &Scope,
        tx: &str,
        moves: &[LaneMove],
        changed: Option<i64>,
    ) -> Result<u64, sqlx::Error> {
        if let [step] = moves {
            return advance_one(conn, scope, tx, step, changed).await;
        }
        let Moves { lanes, prevs, news, leader_epochs } = Moves::new(moves);
        let done = sqlx::query(ADVANCE)
            .bind(scope.partition_ref)
            .bind(scope.epoch.0)
            .bind(tx)
            .bind(lanes)
            .bind(prevs)
            .bind(news)
            .bind(leader_epochs)
            .bind(changed)
            .execute(on(conn))
            .await?;
        Ok(done.rows_affected())
    }

    async fn changed(conn: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
        sqlx::query_scalar(CHANGED).fetch_one(on(conn)).await
    }

    async fn same_transaction(conn: &mut PgConnection, tx: &str) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar(SAME_TRANSACTION).bind(tx).fetch_one(on(conn)).await
    }

    async fn place_of(
        conn: &mut PgConnection,
        partition_ref: i64,
    ) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar(PLACE_OF).bind(partition_ref).fetch_optional(on(conn)).await
    }

    async fn commit(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        deadline::within(end::commit::<Self>(conn)).await
    }

    async fn rollback(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        deadline::within(end::rollback::<Self>(conn)).await
    }
}

async fn advance_one(
    conn: &mut PgConnection,
    scope: &Scope,
    tx: &str,
    step: &LaneMove,
    changed: Option<i64>,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(ADVANCE_ONE)
        .bind(scope.partition_ref)
        .bind(scope.epoch.0)
        .bind(tx)
        .bind(i32::from(step.lane.0))
        .bind(step.prev.0)
        .bind(step.new.0)
        .bind(step.leader_epoch.0)
        .bind(changed)
        .execute(on(conn))
        .await?;
    Ok(done.rows_affected())
}
