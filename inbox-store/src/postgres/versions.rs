//! Versions of aggregates, in the claim and in the advance.

use inbox_engine::internal::{LaneMove, ParkReason};
use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};

use super::{
    Moves,
    claim::{changed, claim, claim_one, locked, moved, seen},
    claim_values::{bind, bind_one, check, is_single, read, read_one},
    sent::on,
};
use crate::{
    port::{
        Advanced, AsideEvent, ClaimRequest, ClaimResult, LastVersion, Scope, VersionMove, Versions,
        WaitingEvent,
    },
    shared::{count, millis, sixteen},
};

/// [`CLAIM`](super::claim::CLAIM), with $10 aggregates. The selection around $10 hides how many there are, as that of the ids.
pub(super) const CLAIM: &str = claim!(
    "w.version_keys, w.versions, ",
    ",
    (SELECT array_agg(aggregate_key) AS version_keys, array_agg(version) AS versions FROM inbox_versions
        WHERE consumer_ref = $1 AND aggregate_key = ANY((SELECT $10::bytea[])::bytea[])) w"
);

/// [`CLAIM_ONE`](super::claim::CLAIM_ONE), with $10 the aggregate.
pub(super) const CLAIM_ONE: &str = claim_one!(
    ",
    (SELECT w.version FROM inbox_versions w WHERE w.consumer_ref = $1 AND w.aggregate_key = $10) AS version"
);

/// [`ADVANCE`](super::claim::ADVANCE), with $9 consumer, $10 aggregates, $11 what each was judged by, $12 what it is now, $13
/// the queues of what waits for that, which is woken, and with it what waits for the versions right behind, of the same
/// aggregate. Nobody writes who has not all of its lanes: whoever was fenced waits for no row of the new owner. In the
/// order of the keys, as two transactions meet here whose partitions share aggregates.
///
/// Rows that are there are changed plainly, and the others added: `ON CONFLICT` over all of them looks each row
/// up twice and locks it in the log first. The selections hide how many there are from the planner, which would read
/// the whole table for many, in another order.
pub(super) const ADVANCE: &str = concat!(
    locked!(),
    ",
moved AS (",
    moved!(),
    " RETURNING 1),
versions AS (
    UPDATE inbox_versions w SET version = v.new, previous = v.prev, changed_at = now()
    FROM unnest((SELECT $10::bytea[])::bytea[], $11::bigint[], $12::bigint[]) v(key, prev, new)
    WHERE (SELECT count(*) FROM k) = cardinality($4::integer[])
        AND w.consumer_ref = $9 AND w.aggregate_key = v.key AND w.version = v.prev RETURNING 1),
added AS (
    INSERT INTO inbox_versions (consumer_ref, aggregate_key, version)
    SELECT $9, v.key, v.new FROM unnest($10::bytea[], $11::bigint[], $12::bigint[]) v(key, prev, new)
    WHERE v.prev IS NULL AND (SELECT count(*) FROM k) = cardinality($4::integer[]) ORDER BY v.key
    ON CONFLICT (aggregate_key, consumer_ref) DO NOTHING RETURNING 1),
woken AS (
    UPDATE inbox_parked q SET aggregate_key = q.joins, joins = NULL, awaiting = NULL, reason = 'follower',
        due_at = now()
    FROM (SELECT DISTINCT f.parked_seq FROM inbox_parked s, LATERAL (
            SELECT c.parked_seq, c.awaiting::numeric - s.awaiting + 1 - dense_rank() OVER (ORDER BY c.awaiting) AS hole
            FROM inbox_parked c WHERE c.partition_ref = $1 AND c.joins = s.joins AND c.awaiting >= s.awaiting
                AND c.aggregate = s.aggregate ORDER BY c.awaiting LIMIT 32) f
        WHERE s.partition_ref = $1 AND s.aggregate_key = ANY($13::bytea[]) AND f.hole = 0) w
    WHERE (SELECT count(*) FROM k) = cardinality($4::integer[]) AND q.joins IS NOT NULL
        AND q.partition_ref = $1 AND q.parked_seq = w.parked_seq RETURNING 1)
SELECT (SELECT count(*) FROM moved) AS lanes,
    (SELECT count(*) FROM versions) + (SELECT count(*) FROM added) AS versions,
    (SELECT count(*) FROM woken) AS woken"
);

/// $1 partition, then one array a column.
const SET_JOINS: &str = r#"UPDATE inbox_parked q SET joins = w.key, awaiting = w.version
FROM unnest($2::bigint[], $3::integer[], $4::bytea[], $5::bigint[]) w(off, le, key, version)
WHERE q.partition_ref = $1 AND q."offset" = w.off AND q.leader_epoch = w.le AND q.reason = 'gap' AND q.joins IS NULL"#;

/// $1 partition, then one array a column. An older build runs an event out of the queue in which it waits: it still
/// joins that of its aggregate.
const SET_ASIDE: &str = "UPDATE inbox_parked q SET joins = coalesce(q.joins, q.aggregate_key), aggregate_key = w.queue, awaiting = w.version,
    reason = 'gap', due_at = now() + w.wait * interval '1 millisecond', intent = NULL, intent_by = NULL, intent_at = NULL
FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[]) w(seq, queue, version, wait)
WHERE q.partition_ref = $1 AND q.parked_seq = w.seq";

/// $1 partition, $2 number.
const JOINS_OTHERS: &str = "SELECT EXISTS (SELECT FROM inbox_parked o
    WHERE o.partition_ref = $1 AND o.aggregate_key = q.joins AND o.parked_seq <> q.parked_seq)
FROM inbox_parked q WHERE q.partition_ref = $1 AND q.parked_seq = $2 AND q.joins IS NOT NULL";

/// $1 partition, $2 number, $3 the last version. Of two aggregates under one key each has its own first; a row
/// that does not say whose it is stands for itself.
const FIRST_WAITING: &str = r#"SELECT f.parked_seq FROM inbox_parked q
JOIN inbox_parked f ON f.partition_ref = q.partition_ref AND f.joins = q.joins AND f.awaiting > $3
    AND (f.parked_seq = q.parked_seq OR f.aggregate = q.aggregate AND q.aggregate <> '')
WHERE q.partition_ref = $1 AND q.parked_seq = $2 ORDER BY f.awaiting, f."offset" LIMIT 1"#;

/// $1 partition, $2 number, $3 reason.
const JOIN: &str =
    "UPDATE inbox_parked SET aggregate_key = joins, joins = NULL, awaiting = NULL, reason = $3,
    due_at = now()
WHERE partition_ref = $1 AND parked_seq = $2 AND joins IS NOT NULL";

const LAST: &str = "SELECT aggregate_key, version FROM inbox_versions
WHERE consumer_ref = $1 AND aggregate_key = ANY($2)";

impl Versions for Postgres {
    async fn claim_versions(
        conn: &mut PgConnection,
        scope: &Scope,
        request: &ClaimRequest,
        keys: &[[u8; 16]],
    ) -> Result<(ClaimResult, Vec<LastVersion>), sqlx::Error> {
        check(request)?;
        if is_single(request)
            && let [key] = keys
        {
            let row = bind_one(sqlx::query(CLAIM_ONE), scope, request).bind(&key[..]);
            let row = row.fetch_one(on(conn)).await?;
            let version: Option<i64> = row.try_get("version")?;
            let last = version.map(|version| (*key, version)).into_iter().collect();
            return Ok((read_one(&row, request)?, last));
        }
        let row = bind(sqlx::query(CLAIM), scope, request).bind(keys).fetch_one(on(conn)).await?;
        let keys: Option<Vec<Vec<u8>>> = row.try_get("version_keys")?;
        let versions: Option<Vec<i64>> = row.try_get("versions")?;
        let last = keys.unwrap_or_default().into_iter().zip(versions.unwrap_or_default());
        let last = last.map(|(key, version)| Ok((sixteen(&key)?, version)));
        Ok((read(&row)?, last.collect::<Result<_, sqlx::Error>>()?))
    }

    async fn advance_versions(
        conn: &mut PgConnection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
        changed: Option<i64>,
        versions: &[VersionMove],
    ) -> Result<Advanced, sqlx::Error> {
        let Moves { lanes, prevs, news, leader_epochs } = Moves::new(lanes);
        let row = sqlx::query(ADVANCE)
            .bind(scope.partition_ref)
            .bind(scope.epoch.0)
            .bind(tx)
            .bind(lanes)
            .bind(prevs)
            .bind(news)
            .bind(leader_epochs)
            .bind(changed)
            .bind(scope.consumer_ref)
            .bind(versions.iter().map(|v| v.key).collect::<Vec<_>>())
            .bind(versions.iter().map(|v| v.prev).collect::<Vec<_>>())
            .bind(versions.iter().map(|v| v.new).collect::<Vec<_>>())
            .bind(versions.iter().flat_map(|v| v.awaits.iter().copied()).collect::<Vec<_>>())
            .fetch_one(on(conn))
            .await?;
        Ok(Advanced {
            lanes: count(row.try_get("lanes")?),
            versions: count(row.try_get("versions")?),
            woken: count(row.try_get("woken")?),
        })
    }

    async fn set_joins(
        conn: &mut PgConnection,
        scope: &Scope,
        events: &[WaitingEvent],
    ) -> Result<u64, sqlx::Error> {
        sqlx::query(SET_JOINS)
            .bind(scope.partition_ref)
            .bind(events.iter().map(|event| event.offset.0).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.leader_epoch.0).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.joins).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.version).collect::<Vec<_>>())
            .execute(on(conn))
            .await
            .map(|done| done.rows_affected())
    }

    async fn set_aside(
        conn: &mut PgConnection,
        scope: &Scope,
        events: &[AsideEvent],
    ) -> Result<u64, sqlx::Error> {
        sqlx::query(SET_ASIDE)
            .bind(scope.partition_ref)
            .bind(events.iter().map(|event| event.seq).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.queue).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.version).collect::<Vec<_>>())
            .bind(events.iter().map(|event| millis(event.wait)).collect::<Vec<_>>())
            .execute(on(conn))
            .await
            .map(|done| done.rows_affected())
    }

    async fn joins_others(
        conn: &mut PgConnection,
        scope: &Scope,
        seq: i64,
    ) -> Result<Option<bool>, sqlx::Error> {
        let query = sqlx::query_scalar(JOINS_OTHERS).bind(scope.partition_ref).bind(seq);
        query.fetch_optional(on(conn)).await
    }

    async fn first_waiting(
        conn: &mut PgConnection,
        scope: &Scope,
        seq: i64,
        last: i64,
    ) -> Result<i64, sqlx::Error> {
        let query = sqlx::query_scalar(FIRST_WAITING).bind(scope.partition_ref).bind(seq);
        query.bind(last).fetch_one(on(conn)).await
    }

    async fn join(
        conn: &mut PgConnection,
        scope: &Scope,
        seq: i64,
        reason: ParkReason,
    ) -> Result<u64, sqlx::Error> {
        let query = sqlx::query(JOIN).bind(scope.partition_ref).bind(seq).bind(reason.as_str());
        query.execute(on(conn)).await.map(|done| done.rows_affected())
    }

    async fn last_versions(
        conn: &mut PgConnection,
        scope: &Scope,
        keys: &[[u8; 16]],
    ) -> Result<Vec<LastVersion>, sqlx::Error> {
        let rows =
            sqlx::query(LAST).bind(scope.consumer_ref).bind(keys).fetch_all(on(conn)).await?;
        let last = |row: &PgRow| {
            let key: Vec<u8> = row.try_get("aggregate_key")?;
            Ok((sixteen(&key)?, row.try_get("version")?))
        };
        rows.iter().map(last).collect()
    }
}
