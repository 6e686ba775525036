//! The numbers of rows: SQLite gives none that is not above all others.

use sqlx::{Sqlite, SqliteConnection};

use crate::port::{FeedError, Finding, Numbers};

impl Numbers for Sqlite {
    /// AUTOINCREMENT takes the larger one of what `sqlite_sequence` says and the largest number of a row, and
    /// adds one to it: a copy of the rows alone is numbered well, too.
    async fn numbering(_: &mut SqliteConnection) -> Result<Option<Finding>, FeedError> {
        Ok(None)
    }
}
