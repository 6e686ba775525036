//! Declared handlers: the relation of events out of a JSON text. SQLite is in this process, so a
//! statement for each event costs no round trip.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, Executor as _, SqlSafeStr, Sqlite, SqliteConnection};

use super::{SqliteSettings, fault};
use crate::{
    declared,
    port::{ColumnType, Declarations, DeclaredSql, LoopSql, Refused, Relation, Shape, StoreFault},
    relation_json,
    sql::Dialect,
};

/// The columns that every relation has, before the typed ones.
const OWN: [&str; 4] = ["ord", "event_id", "aggregate_id", "occurred_at"];

impl Declarations for Sqlite {
    fn declare(shape: &Shape<'_>) -> Result<DeclaredSql, String> {
        let read = declared::read(shape.sql, Dialect::Sqlite)?;
        let (whole, before) = read.reading(&relation(shape));
        Ok(DeclaredSql {
            whole: AssertSqlSafe(whole).into_sql_str(),
            one: None,
            each: None,
            before,
            skipped: read.skipped(shape.sql),
        })
    }

    async fn look_at(conn: &mut SqliteConnection, sql: &DeclaredSql) -> Result<(), Refused> {
        let Err(error) = conn.prepare(sql.whole.clone()).await else { return Ok(()) };
        if fault::classify(&error) != StoreFault::Statement {
            return Err(Refused::Outage(error));
        }
        let said = error.as_database_error().map(|said| said.message().to_owned());
        let error = said.unwrap_or_else(|| error.to_string());
        Err(Refused::Statement { error, position: None })
    }

    async fn equip(
        _conn: &mut SqliteConnection,
        settings: &SqliteSettings,
        _loops: &[&LoopSql],
    ) -> Result<SqliteSettings, String> {
        Ok(settings.clone())
    }

    async fn apply(
        conn: &mut SqliteConnection,
        sql: &DeclaredSql,
        _looped: bool,
        relation: &Relation<'_>,
    ) -> Result<(), sqlx::Error> {
        let query = sqlx::query(sql.whole.clone()).bind(relation_json::rows(relation));
        query.execute(conn).await.map(drop)
    }
}

/// The query of the relation. SQLite has few types: uuid, numeric, timestamptz, date and jsonb are
/// text there.
fn relation(shape: &Shape<'_>) -> String {
    let mut text = String::from("SELECT ");
    for (at, name) in OWN.iter().enumerate() {
        let _ = write!(text, "value ->> {at} AS {name}, ");
    }
    for (at, (name, column)) in shape.columns.iter().enumerate() {
        let place = format!("value ->> {}", at + OWN.len());
        let _ = match column {
            ColumnType::Bytea => write!(text, "unhex({place}) AS \"{name}\", "),
            _ => write!(text, "{place} AS \"{name}\", "),
        };
    }
    text.truncate(text.len() - ", ".len());
    text.push_str(" FROM json_each(?1)");
    text
}
