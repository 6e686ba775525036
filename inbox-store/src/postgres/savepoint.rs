//! The text of savepoints.

use sqlx::Postgres;

use crate::flow::savepoint::SavepointSql;

impl SavepointSql for Postgres {
    /// In a savepoint of its own, which is rolled back.
    const CONSTRAINTS_IMMEDIATE: Option<&'static str> = Some(
        "SAVEPOINT inbox_constraints; SET CONSTRAINTS ALL IMMEDIATE; \
     ROLLBACK TO SAVEPOINT inbox_constraints; RELEASE SAVEPOINT inbox_constraints",
    );
}
