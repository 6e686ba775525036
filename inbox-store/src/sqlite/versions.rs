//! Versions of aggregates, in the claim and in the advance.

use std::fmt::Write as _;

use futures::TryStreamExt as _;
use inbox_engine::internal::LaneMove;
use sqlx::{Executor as _, Row, Sqlite, SqliteConnection};

use super::{
    claim::{self, advance, claim},
    client::on,
    writer,
};
use crate::{
    json::{joined, moves, places},
    port::{Advanced, ClaimRequest, ClaimResult, LastVersion, Scope, VersionMove, Versions},
    shared::unexpected,
};

/// [`claim::CLAIM`], with ?11 aggregates, ?12 their places.
pub(super) const CLAIM: &str = claim!(
    ",
(SELECT json_group_array(json_array(v.value, w.version)) FROM json_each(?12) v
    CROSS JOIN inbox_versions w ON w.consumer_ref = ?1 AND w.aggregate_key = substr(?11, v.value * 16 + 1, 16)) AS versions"
);

/// [`claim::ADVANCE`], then, with ?4 consumer, ?5 aggregates, ?6 `[[place,prev,new],…]`, their versions. Nobody else
/// writes between the two.
pub(super) const ADVANCE: &str = advance!(
    ";
INSERT INTO inbox_versions (consumer_ref, aggregate_key, version, previous)
SELECT ?4, substr(?5, (value ->> 0) * 16 + 1, 16), value ->> 2, value ->> 1 FROM json_each(?6) WHERE true
ON CONFLICT (consumer_ref, aggregate_key) DO UPDATE SET version = excluded.version, previous = excluded.previous,
    changed_at = excluded.changed_at
WHERE inbox_versions.version = excluded.previous"
);

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
        let query = claim::bind(CLAIM, scope, request).bind(joined(keys)).bind(places(keys.len()));
        let (row, inserted) = claim::ask(conn, query).await?;
        let last = versions(keys, row.try_get("versions")?)?;
        Ok((claim::read(&row, inserted, tx, request)?, last))
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
            .bind(changes(versions));
        let steps: Vec<_> = on(conn).fetch_many(query).try_collect().await?;
        let mut rows =
            steps.into_iter().filter_map(|step| step.left()).map(|it| it.rows_affected());
        match (rows.next(), rows.next()) {
            (Some(lanes), Some(versions)) => Ok(Advanced { lanes, versions }),
            _ => Err(unexpected("an advance with versions did not say what it changed")),
        }
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
    let last: Vec<(usize, i64)> = claim::parse(array)?;
    let last = last.into_iter().map(|(place, version)| Some((*keys.get(place)?, version)));
    last.collect::<Option<_>>().ok_or_else(|| unexpected(claim::NO_ARRAY))
}
