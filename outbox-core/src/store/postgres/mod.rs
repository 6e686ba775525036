//! PostgreSQL 13 and later.

mod append;
mod notify;
mod schema;
mod statements;

use sqlx::{PgConnection, Postgres};

pub use self::statements::keeps_statements;
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
