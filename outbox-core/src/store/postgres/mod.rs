//! PostgreSQL 13 and later.

mod append;
mod notify;
mod schema;

use sqlx::{Connection as _, PgConnection, Postgres};

use super::{Appended, Outbox, OutboxDatabase};
use crate::OutboxEvent;

impl OutboxDatabase for Postgres {
    async fn append_rows(
        conn: &mut PgConnection,
        outbox: &Outbox,
        events: &[OutboxEvent],
    ) -> Result<Appended, sqlx::Error> {
        append::rows(conn, outbox, events).await
    }

    async fn migrate_outbox(conn: &mut PgConnection) -> Result<Vec<i64>, sqlx::Error> {
        schema::migrate(conn).await
    }

    async fn outbox_version(conn: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
        schema::version(conn).await
    }

    fn outbox_newest() -> i64 {
        schema::newest()
    }

    fn print_outbox() -> String {
        schema::print()
    }

    async fn set_trigger(conn: &mut PgConnection, is_there: bool) -> Result<(), sqlx::Error> {
        notify::set(conn, is_there).await
    }

    fn print_trigger(is_there: bool) -> Option<&'static str> {
        notify::print(is_there)
    }
}

/// Whether the session keeps prepared statements: one that does has kept the first that ran on it.
///
/// The driver gives each statement a name unless it is told otherwise, and closes only those that fall out of
/// its cache. Without a cache they stay, behind a pooler in the way of others.
#[doc(hidden)]
pub fn keeps_statements(conn: &PgConnection) -> bool {
    conn.cached_statements_size() > 0
}
