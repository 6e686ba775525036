//! Versions of aggregates, in the claim and in the advance.

use std::fmt::Write as _;

use futures::TryStreamExt as _;
use inbox_engine::internal::{LaneMove, ParkReason};
use sqlx::{Executor as _, Row, Sqlite, SqliteConnection};

use super::{
    claim::{self, advance, claim},
    claim_values,
    client::on,
    writer,
};
use crate::{
    json::{joined, moves, places},
    port::{
        Advanced, AsideEvent, ClaimRequest, ClaimResult, LastVersion, Scope, VersionMove, Versions,
        WaitingEvent,
    },
    shared::{millis, unexpected},
};

/// [`claim::CLAIM`], with ?11 aggregates, ?12 their places.
pub(super) const CLAIM: &str = claim!(
    ",
(SELECT json_group_array(json_array(v.value, w.version)) FROM json_each(?12) v
    CROSS JOIN inbox_versions w ON w.consumer_ref = ?1 AND w.aggregate_key = substr(?11, v.value * 16 + 1, 16)) AS versions"
);

/// [`claim::ADVANCE`], then, with ?4 consumer, ?5 aggregates, ?6 `[[place,prev,new],…]`, their versions, and,
/// with ?7 and ?8, the queues of what waits for them, which is woken, and with it what waits for the versions right
/// behind, of the same aggregate. Nobody else writes between the two. `+`: the rows of one queue are few, those of all
/// that waits need not be.
pub(super) const ADVANCE: &str = advance!(
    ";
INSERT INTO inbox_versions (consumer_ref, aggregate_key, version, previous)
SELECT ?4, substr(?5, (value ->> 0) * 16 + 1, 16), value ->> 2, value ->> 1 FROM json_each(?6) WHERE true
ON CONFLICT (consumer_ref, aggregate_key) DO UPDATE SET version = excluded.version, previous = excluded.previous,
    changed_at = excluded.changed_at
WHERE inbox_versions.version = excluded.previous;
UPDATE inbox_parked SET aggregate_key = joins, joins = NULL, awaiting = NULL, reason = 'follower',
    due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE parked_seq IN (
    WITH RECURSIVE r(n, joins, aggregate, awaiting) AS (
        SELECT 1, s.joins, s.aggregate, s.awaiting FROM json_each(?8) v CROSS JOIN inbox_parked s
        ON s.partition_ref = ?1 AND s.aggregate_key = substr(?7, v.value * 16 + 1, 16) WHERE +s.joins IS NOT NULL
        UNION
        SELECT r.n + 1, c.joins, c.aggregate, c.awaiting FROM r CROSS JOIN inbox_parked c
        ON c.partition_ref = ?1 AND c.joins = r.joins AND c.awaiting = r.awaiting + 1 AND c.aggregate = r.aggregate
        WHERE r.n < 32 AND c.joins IS NOT NULL)
    SELECT c.parked_seq FROM r CROSS JOIN inbox_parked c
    ON c.partition_ref = ?1 AND c.joins = r.joins AND c.awaiting = r.awaiting AND c.aggregate = r.aggregate
    WHERE c.joins IS NOT NULL)"
);

/// ?1 partition, ?2 offset, ?3 leader epoch, ?4 queue, ?5 version.
const SET_JOINS: &str = r#"UPDATE inbox_parked SET joins = ?4, awaiting = ?5
WHERE partition_ref = ?1 AND "offset" = ?2 AND leader_epoch = ?3 AND reason = 'gap' AND joins IS NULL"#;

/// ?1 partition, ?2 number, ?3 queue, ?4 milliseconds, ?5 version. An older build runs an event out of the queue in
/// which it waits: it still joins that of its aggregate.
const SET_ASIDE: &str = "UPDATE inbox_parked SET joins = coalesce(joins, aggregate_key), aggregate_key = ?3, awaiting = ?5, reason = 'gap',
    due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?4, intent = NULL, intent_by = NULL, intent_at = NULL
WHERE partition_ref = ?1 AND parked_seq = ?2";

/// ?1 partition, ?2 number.
const JOINS_OTHERS: &str = "SELECT EXISTS (SELECT 1 FROM inbox_parked o
    WHERE o.partition_ref = ?1 AND o.aggregate_key = q.joins AND o.parked_seq <> q.parked_seq)
FROM inbox_parked q WHERE q.partition_ref = ?1 AND q.parked_seq = ?2 AND q.joins IS NOT NULL";

/// ?1 partition, ?2 number, ?3 the last version. Of two aggregates under one key each has its own first; a row
/// that does not say whose it is stands for itself.
const FIRST_WAITING: &str = r#"SELECT f.parked_seq FROM inbox_parked q
JOIN inbox_parked f ON f.partition_ref = q.partition_ref AND f.joins = q.joins AND f.awaiting > ?3
    AND (f.parked_seq = q.parked_seq OR f.aggregate = q.aggregate AND q.aggregate <> '')
WHERE q.partition_ref = ?1 AND q.parked_seq = ?2 ORDER BY f.awaiting, f."offset" LIMIT 1"#;

/// ?1 partition, ?2 number, ?3 reason.
const JOIN: &str =
    "UPDATE inbox_parked SET aggregate_key = joins, joins = NULL, awaiting = NULL, reason = ?3,
    due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE partition_ref = ?1 AND parked_seq = ?2 AND joins IS NOT NULL";

const LAST: &str =
    "SELECT json_group_array(json_array(v.value, w.version)) FROM json_each(?3) v
CROSS JOIN inbox_versions w ON w.consumer_ref = ?1 AND w.aggregate_key = substr(?2, v.value * 16 + 1, 16)";

impl Versions for Sqlite {
    async fn claim_versions(
        conn: &mut SqliteConnection,
        scope: &Scope,
        request: &ClaimRequest,
        keys: &[[u8; 16]],
    ) -> Result<(ClaimResult, Vec<LastVersion>), sqlx::Error> {
        let tx = writer::session(conn).await?.tx();
        let query =
            claim_values::bind(CLAIM, scope, request).bind(joined(keys)).bind(places(keys.len()));
        let (row, inserted) = claim_values::ask(conn, query).await?;
        let last = versions(keys, row.try_get("versions")?)?;
        Ok((claim_values::read(&row, inserted, tx, request)?, last))
    }

    async fn advance_versions(
        conn: &mut SqliteConnection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
        _changed: Option<i64>,
        versions: &[VersionMove],
    ) -> Result<Advanced, sqlx::Error> {
        claim::release(conn, tx).await?;
        let query = sqlx::query(ADVANCE)
            .bind(scope.partition_ref)
            .bind(moves(lanes))
            .bind(scope.epoch.0)
            .bind(scope.consumer_ref)
            .bind(joined(versions.iter().map(|version| &version.key)))
            .bind(changes(versions))
            .bind(joined(versions.iter().flat_map(|version| &version.awaits)))
            .bind(places(versions.iter().map(|version| version.awaits.len()).sum()));
        let steps: Vec<_> = on(conn).fetch_many(query).try_collect().await?;
        let mut rows =
            steps.into_iter().filter_map(sqlx::Either::left).map(|it| it.rows_affected());
        match (rows.next(), rows.next(), rows.next()) {
            (Some(lanes), Some(versions), Some(woken)) => Ok(Advanced { lanes, versions, woken }),
            _ => Err(unexpected("an advance with versions did not say what it changed")),
        }
    }

    async fn set_joins(
        conn: &mut SqliteConnection,
        scope: &Scope,
        events: &[WaitingEvent],
    ) -> Result<u64, sqlx::Error> {
        let mut set = 0;
        for event in events {
            let query = sqlx::query(SET_JOINS)
                .bind(scope.partition_ref)
                .bind(event.offset.0)
                .bind(event.leader_epoch.0)
                .bind(&event.joins[..])
                .bind(event.version);
            set += query.execute(on(conn)).await?.rows_affected();
        }
        Ok(set)
    }

    async fn set_aside(
        conn: &mut SqliteConnection,
        scope: &Scope,
        events: &[AsideEvent],
    ) -> Result<u64, sqlx::Error> {
        let mut set = 0;
        for event in events {
            let query = sqlx::query(SET_ASIDE)
                .bind(scope.partition_ref)
                .bind(event.seq)
                .bind(&event.queue[..])
                .bind(millis(event.wait))
                .bind(event.version);
            set += query.execute(on(conn)).await?.rows_affected();
        }
        Ok(set)
    }

    async fn joins_others(
        conn: &mut SqliteConnection,
        scope: &Scope,
        seq: i64,
    ) -> Result<Option<bool>, sqlx::Error> {
        let query = sqlx::query_scalar(JOINS_OTHERS).bind(scope.partition_ref).bind(seq);
        query.fetch_optional(on(conn)).await
    }

    async fn first_waiting(
        conn: &mut SqliteConnection,
        scope: &Scope,
        seq: i64,
        last: i64,
    ) -> Result<i64, sqlx::Error> {
        let query = sqlx::query_scalar(FIRST_WAITING).bind(scope.partition_ref).bind(seq);
        query.bind(last).fetch_one(on(conn)).await
    }

    async fn join(
        conn: &mut SqliteConnection,
        scope: &Scope,
        seq: i64,
        reason: ParkReason,
    ) -> Result<u64, sqlx::Error> {
        let query = sqlx::query(JOIN).bind(scope.partition_ref).bind(seq).bind(reason.as_str());
        query.execute(on(conn)).await.map(|done| done.rows_affected())
    }

    async fn last_versions(
        conn: &mut SqliteConnection,
        scope: &Scope,
        keys: &[[u8; 16]],
    ) -> Result<Vec<LastVersion>, sqlx::Error> {
        let last: String = sqlx::query_scalar(LAST)
            .bind(scope.consumer_ref)
            .bind(joined(keys))
            .bind(places(keys.len()))
            .fetch_one(on(conn))
            .await?;
        versions(keys, &last)
    }
}

/// `[[place,prev,new],…]`.
fn changes(versions: &[VersionMove]) -> String {
    let mut json = String::new();
    for (place, VersionMove { prev, new, .. }) in versions.iter().enumerate() {
        json.push(if json.is_empty() { '[' } else { ',' });
        let prev = prev.map_or_else(|| "null".to_owned(), |prev| prev.to_string());
        let _ = write!(json, "[{place},{prev},{new}]");
    }
    json.push_str(if json.is_empty() { "[]" } else { "]" });
    json
}

/// The versions at the places of an array.
fn versions(keys: &[[u8; 16]], array: &str) -> Result<Vec<LastVersion>, sqlx::Error> {
    let last: Vec<(usize, i64)> = claim_values::parse(array)?;
    let last = last.into_iter().map(|(place, version)| Some((*keys.get(place)?, version)));
    last.collect::<Option<_>>().ok_or_else(|| unexpected(claim_values::NO_ARRAY))
}
