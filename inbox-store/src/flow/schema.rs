//! The project's own tables: migrations in one transaction, under a lock.

use std::future::Future;

use outbox_core::{
    OutboxDatabase,
    internal::migration::{self, Migration},
};
use sqlx::SqlSafeStr as _;

use super::{Read as _, SqlClient, values};
use crate::port::{Schemas, deadline};

/// The table of the versions that are applied.
const VERSIONS_TABLE: &str = "inbox_schema_versions";

/// The texts of the schema.
pub(crate) struct SchemaTexts {
    pub(crate) migrations: &'static [Migration],
    /// The newest version that is applied.
    pub(crate) version: &'static str,
    /// 1 version.
    pub(crate) applied: &'static str,
}

/// A database with a schema.
pub(crate) trait SchemaSql: SqlClient + OutboxDatabase {
    fn schema() -> &'static SchemaTexts;
    /// Whether the table of versions is there.
    fn has_versions(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
    /// Gives the open transaction the time that changes of tables may take.
    fn allow_time(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Locks out others who migrate, and makes what the tables are put in.
    fn prepare(conn: &mut Self::Connection)
    -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

impl<DB: SchemaSql> Schemas for DB {
    async fn migrate(conn: &mut DB::Connection) -> Result<Vec<i64>, sqlx::Error> {
        DB::begin_own(conn).await?;
        let applied = deadline::patiently(migrate::<DB>(conn)).await;
        DB::end_own(conn, applied).await
    }

    async fn migrate_outbox_beside(conn: &mut DB::Connection) -> Result<Vec<i64>, sqlx::Error> {
        DB::begin_own(conn).await?;
        let applied = deadline::patiently(migrate_outbox::<DB>(conn)).await;
        DB::end_own(conn, applied).await
    }

    async fn version(conn: &mut DB::Connection) -> Result<Option<i64>, sqlx::Error> {
        if !DB::has_versions(conn).await? {
            return Ok(None);
        }
        let version: Option<i64> = DB::fetch_one(conn, DB::schema().version, &[]).await?.at(0)?;
        Ok(Some(version.unwrap_or_default()))
    }

    fn newest() -> i64 {
        migration::newest(DB::schema().migrations)
    }

    fn print() -> String {
        migration::print(DB::schema().migrations, VERSIONS_TABLE)
    }
}

async fn migrate<DB: SchemaSql>(conn: &mut DB::Connection) -> Result<Vec<i64>, sqlx::Error> {
    DB::allow_time(conn).await?;
    DB::prepare(conn).await?;
    let version = <DB as Schemas>::version(conn).await?.unwrap_or_default();
    let mut applied = Vec::new();
    for migration in DB::schema().migrations.iter().filter(|m| m.version > version) {
        DB::run(conn, migration.text.into_sql_str()).await?;
        DB::execute(conn, DB::schema().applied, values![migration.version]).await?;
        applied.push(migration.version);
    }
    Ok(applied)
}

/// In the inbox's schema, which is there.
async fn migrate_outbox<DB: SchemaSql>(conn: &mut DB::Connection) -> Result<Vec<i64>, sqlx::Error> {
    DB::allow_time(conn).await?;
    DB::migrate_outbox(conn).await
}
