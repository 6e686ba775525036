//! SQLite notifies nobody: a relay looks.

use sqlx::SqliteConnection;

/// There is nothing to make.
#[expect(clippy::unused_async, reason = "as its twin's")]
pub(super) async fn set(_conn: &mut SqliteConnection, _is_there: bool) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Nothing.
pub(super) fn print(_is_there: bool) -> Option<&'static str> {
    None
}
