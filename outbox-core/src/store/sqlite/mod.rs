//! SQLite.

mod append;
mod schema;

use sqlx::{Sqlite, SqliteConnection};

use super::{Outbox, OutboxDatabase};
use crate::OutboxEvent;

impl OutboxDatabase for Sqlite {
    async fn append_rows(
        conn: &mut SqliteConnection,
        outbox: &Outbox,
        events: &[OutboxEvent],
    ) -> Result<(), sqlx::Error> {
        append::rows(conn, outbox, events).await
    }

    async fn migrate_outbox(conn: &mut SqliteConnection) -> Result<Vec<i64>, sqlx::Error> {
        schema::migrate(conn).await
    }

    async fn outbox_version(conn: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
        schema::version(conn).await
    }

    fn outbox_newest() -> i64 {
        schema::newest()
    }

    fn print_outbox() -> String {
        schema::print()
    }
}
