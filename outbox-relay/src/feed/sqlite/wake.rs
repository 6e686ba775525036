//! Being told: SQLite tells nobody, so only the poll finds rows.

use sqlx::Sqlite;

use super::session::SqliteSettings;
use crate::port::{WakeSignals, Wakes};

impl Wakes for Sqlite {
    async fn listen(
        _settings: SqliteSettings,
        _bells: WakeSignals,
        _told: impl Fn(Result<(), String>) + Send + Sync + 'static,
    ) {
        std::future::pending::<()>().await;
    }
}
