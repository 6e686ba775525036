//! What runs with care.

use inbox_engine::internal::Offset;
use uuid::Uuid;

use super::{Read as _, SqlClient, values};
use crate::{
    port::{Scope, Suspect, Suspects},
    takeover::{self, SuspectRow},
};

/// The texts of suspects.
pub(crate) struct SuspectTexts {
    /// 1 partition, 2 process, 3 offsets. What another process has left counts as its end.
    pub(crate) add: &'static str,
    /// 1 partition, 2 process, 3 offsets.
    pub(crate) remove: &'static str,
    /// 1 partition, 2 watermark. What is settled is suspected no more.
    pub(crate) forget: &'static str,
    /// 1 partition.
    pub(crate) all: &'static str,
    /// 1 partition, 2 offset, 3 who and why.
    pub(crate) doom: &'static str,
}

/// A database with suspects.
pub(crate) trait SuspectSql: SqlClient {
    fn suspects() -> &'static SuspectTexts;
}

impl<DB: SuspectSql> Suspects for DB {
    async fn suspect(
        conn: &mut DB::Connection,
        scope: &Scope,
        incarnation: Uuid,
        offsets: &[Offset],
    ) -> Result<(), sqlx::Error> {
        write::<DB>(conn, DB::suspects().add, scope, incarnation, offsets).await
    }

    async fn acquit(
        conn: &mut DB::Connection,
        scope: &Scope,
        incarnation: Uuid,
        offsets: &[Offset],
    ) -> Result<(), sqlx::Error> {
        write::<DB>(conn, DB::suspects().remove, scope, incarnation, offsets).await
    }
}

async fn write<DB: SqlClient>(
    conn: &mut DB::Connection,
    text: &'static str,
    scope: &Scope,
    incarnation: Uuid,
    offsets: &[Offset],
) -> Result<(), sqlx::Error> {
    let offsets: Vec<i64> = offsets.iter().map(|offset| offset.0).collect();
    DB::begin_own(conn).await?;
    let done = DB::execute(conn, text, values![scope.partition_ref, incarnation, &offsets]).await;
    DB::end_own(conn, done).await.map(drop)
}

/// What is left of processes that have ended, in the transaction of a take-over.
pub(super) async fn left<DB: SuspectSql>(
    conn: &mut DB::Connection,
    partition_ref: i64,
    watermark: i64,
    incarnation: Uuid,
) -> Result<Vec<Suspect>, sqlx::Error> {
    let rows = all::<DB>(conn, partition_ref).await?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    DB::execute(conn, DB::suspects().forget, values![partition_ref, watermark]).await?;
    let left = rows.into_iter().filter_map(|row| takeover::suspect(row, watermark, incarnation));
    Ok(left.collect())
}

/// Everything that is written down of a partition.
pub(super) async fn all<DB: SuspectSql>(
    conn: &mut DB::Connection,
    partition_ref: i64,
) -> Result<Vec<SuspectRow<Uuid>>, sqlx::Error> {
    let rows = DB::fetch_all(conn, DB::suspects().all, values![partition_ref]).await?;
    let row = |row: &DB::Row| -> Result<SuspectRow<Uuid>, sqlx::Error> {
        Ok((row.read("offset")?, row.read("deaths")?, row.read("incarnation")?, row.read("doom")?))
    };
    rows.iter().map(row).collect()
}

/// Has an event parked when it is its turn.
pub(super) async fn doom<DB: SuspectSql>(
    conn: &mut DB::Connection,
    partition_ref: i64,
    offset: Offset,
    doom: &str,
) -> Result<(), sqlx::Error> {
    let values = values![partition_ref, offset.0, doom];
    DB::execute(conn, DB::suspects().doom, values).await.map(drop)
}
