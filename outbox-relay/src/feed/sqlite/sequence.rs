//! The numbers of rows: SQLite gives none that is not above all others.

use inbox_engine::internal::Rule;
use sqlx::{Sqlite, SqliteConnection};

use crate::port::{FeedError, Finding, Numbers};

/// Whether the table is still the one that `migrate` makes; no row where it is not there.
const AUTOINCREMENT: &str =
    "SELECT sql LIKE '%AUTOINCREMENT%' FROM sqlite_master WHERE name = 'outbox_events'";

impl Numbers for Sqlite {
    /// AUTOINCREMENT takes the larger one of what `sqlite_sequence` says and the largest number of a row, and
    /// adds one to it: a copy of the rows alone is numbered well, too. A table that was rebuilt without it gives the
    /// number of a deleted row once more.
    async fn numbering(session: &mut SqliteConnection) -> Result<Option<Finding>, FeedError> {
        let sound: Option<bool> = sqlx::query_scalar(AUTOINCREMENT).fetch_optional(session).await?;
        let text = "sequence_behind: outbox_events.seq is not AUTOINCREMENT, as after the table \
                    was rebuilt by hand: a new row can get the number of a deleted one. Nothing \
                    is sent until it is fixed: create the table as `outbox-relay migrate --print` \
                    prints it, and copy the rows with their numbers";
        let is_refused = sound == Some(false) && Rule::SequenceInOrder.on();
        Ok(is_refused.then(|| Finding { fatal: true, text: text.into() }))
    }
}
