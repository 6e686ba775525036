//! What a session keeps of the statements that ran on it.

use sqlx::{Connection as _, PgConnection};

/// Whether the session keeps prepared statements: one that does has kept the first that ran on it.
///
/// The driver gives each statement a name unless it is told otherwise, and closes only those that fall out of
/// its cache. Without a cache they stay, behind a pooler in the way of others.
#[doc(hidden)]
pub fn keeps_statements(conn: &PgConnection) -> bool {
    conn.cached_statements_size() > 0
}
