//! PostgreSQL 13 and later.

mod append;
mod schema;

use sqlx::{PgConnection, Postgres};

use super::{Outbox, OutboxDatabase};
use crate::OutboxEvent;

impl OutboxDatabase for Postgres {
    async fn append_rows(
        conn: &mut PgConnection,
        outbox: &Outbox,
        events: &[OutboxEvent],
    ) -> Result<(), sqlx::Error> {
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
}
