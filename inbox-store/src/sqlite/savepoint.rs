//! The text of savepoints.

use sqlx::Sqlite;

use crate::flow::savepoint::SavepointSql;

impl SavepointSql for Sqlite {
    /// A violation of several events is found when they are run one by one.
    const CONSTRAINTS_IMMEDIATE: Option<&'static str> = None;
}
