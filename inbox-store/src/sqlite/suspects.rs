//! What runs with care.

use inbox_engine::Offset;
use sqlx::{Sqlite, SqliteConnection};
use uuid::Uuid;

use super::{
    numbers,
    session::{begin_own, end_own},
};
use crate::{
    port::{Scope, Suspect, Suspects},
    takeover::{self, SuspectRow},
};

/// ?1 partition, ?2 process, ?3 offsets. What another process has left counts as its end.
const ADD: &str = r#"INSERT INTO inbox_suspects (partition_ref, "offset", incarnation)
SELECT ?1, value, ?2 FROM json_each(?3) WHERE true ON CONFLICT (partition_ref, "offset") DO UPDATE
SET deaths = deaths + coalesce(incarnation <> ?2, 0), incarnation = ?2"#;

/// ?1 partition, ?2 process, ?3 offsets.
const REMOVE: &str = r#"DELETE FROM inbox_suspects WHERE partition_ref = ?1 AND incarnation = ?2
AND "offset" IN (SELECT value FROM json_each(?3))"#;

/// ?1 partition, ?2 watermark. What is settled is suspected no more.
const FORGET: &str = r#"DELETE FROM inbox_suspects WHERE partition_ref = ?1 AND "offset" < ?2"#;

/// ?1 partition.
const ALL: &str = r#"SELECT "offset", deaths, incarnation, doom FROM inbox_suspects WHERE partition_ref = ?1
ORDER BY "offset""#;

/// ?1 partition, ?2 offset, ?3 who and why.
const DOOM: &str = r#"INSERT INTO inbox_suspects (partition_ref, "offset", doom) VALUES (?1, ?2, ?3)
ON CONFLICT (partition_ref, "offset") DO UPDATE SET doom = excluded.doom"#;

impl Suspects for Sqlite {
    async fn suspect(
        conn: &mut SqliteConnection,
        scope: &Scope,
        incarnation: Uuid,
        offsets: &[Offset],
    ) -> Result<(), sqlx::Error> {
        write(conn, ADD, scope, incarnation, offsets).await
    }

    async fn acquit(
        conn: &mut SqliteConnection,
        scope: &Scope,
        incarnation: Uuid,
        offsets: &[Offset],
    ) -> Result<(), sqlx::Error> {
        write(conn, REMOVE, scope, incarnation, offsets).await
    }
}

async fn write(
    conn: &mut SqliteConnection,
    text: &'static str,
    scope: &Scope,
    incarnation: Uuid,
    offsets: &[Offset],
) -> Result<(), sqlx::Error> {
    begin_own(conn).await?;
    let done = sqlx::query(text)
        .bind(scope.partition_ref)
        .bind(&incarnation.as_bytes()[..])
        .bind(numbers(offsets.iter().map(|offset| offset.0)))
        .execute(&mut *conn)
        .await;
    end_own(conn, done).await.map(drop)
}

/// What is left of processes that have ended, in the transaction of a take-over.
pub(super) async fn left(
    conn: &mut SqliteConnection,
    partition_ref: i64,
    watermark: i64,
    incarnation: Uuid,
) -> Result<Vec<Suspect>, sqlx::Error> {
    let rows: Vec<SuspectRow<Vec<u8>>> =
        sqlx::query_as(ALL).bind(partition_ref).fetch_all(&mut *conn).await?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query(FORGET).bind(partition_ref).bind(watermark).execute(conn).await?;
    let suspect = |(offset, deaths, process, doom): SuspectRow<Vec<u8>>| {
        let process = process.and_then(|bytes| Uuid::from_slice(&bytes).ok());
        takeover::suspect((offset, deaths, process, doom), watermark, incarnation)
    };
    Ok(rows.into_iter().filter_map(suspect).collect())
}

/// Has an event parked when it is its turn.
pub(super) async fn doom(
    conn: &mut SqliteConnection,
    partition_ref: i64,
    offset: Offset,
    doom: &str,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(DOOM).bind(partition_ref).bind(offset.0).bind(doom);
    query.execute(conn).await.map(drop)
}
