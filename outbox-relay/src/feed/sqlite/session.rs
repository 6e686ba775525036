//! Sessions.

use std::{fmt, str::FromStr, time::Duration};

use service_kit::DatabaseTls;
use sqlx::{
    ConnectOptions, Connection, Sqlite, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::port::{Address, FeedError, OpenError, Sessions};

/// How long a statement waits for the writer of another process.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// What a session needs.
#[derive(Clone)]
pub(crate) struct SqliteSettings {
    options: SqliteConnectOptions,
}

impl fmt::Debug for SqliteSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSettings")
            .field("file", &self.options.get_filename())
            .finish_non_exhaustive()
    }
}

impl Sessions for Sqlite {
    type Options = SqliteConnectOptions;
    type Settings = SqliteSettings;
    type Session = SqliteConnection;

    fn options(url: &str, _: Option<DatabaseTls>) -> Result<SqliteConnectOptions, OpenError> {
        let refused = |text: &str| Err(OpenError::Refused(text.into()));
        if url.contains(":memory:") || url.contains("mode=memory") {
            return refused(
                "an in-memory SQLite database is private to its session, so nothing could be \
                 appended to its outbox; name a file",
            );
        }
        SqliteConnectOptions::from_str(url).or_else(|_| {
            refused("cannot parse `database.url`: write it as sqlite://path/to/file.db")
        })
    }

    fn settings(options: SqliteConnectOptions, address: &Address<'_>) -> SqliteSettings {
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_MAX)
            .statement_cache_capacity(address.statement_cache)
            .disable_statement_logging();
        SqliteSettings { options }
    }

    /// SQLite is told by name which index to read.
    fn for_looks(settings: &SqliteSettings, longest: Duration) -> SqliteSettings {
        SqliteSettings { options: settings.options.clone().busy_timeout(longest.min(BUSY_MAX)) }
    }

    fn outbox(settings: &SqliteSettings) -> String {
        let file = settings.options.get_filename().file_stem();
        file.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }

    fn file(settings: &SqliteSettings) -> Option<u128> {
        let found = std::fs::metadata(settings.options.get_filename());
        Some(found.map_or(0, |file| number(&file)))
    }

    async fn open(settings: &SqliteSettings) -> Result<SqliteConnection, OpenError> {
        let file = settings.options.get_filename();
        outbox_core::internal::private::make(file);
        settings.options.connect().await.map_err(|error| {
            let file = file.display();
            OpenError::Refused(format!(
                "cannot open the SQLite file {file} ({error}); check the path, its permissions \
                 and the file"
            ))
        })
    }

    async fn schema_is_there(
        _: &SqliteSettings,
        _: &mut SqliteConnection,
    ) -> Result<(), OpenError> {
        Ok(())
    }

    fn call_max(_: &SqliteSettings) -> Duration {
        BUSY_MAX * 6
    }

    async fn begin(_: &SqliteSettings, _: &mut SqliteConnection) -> Result<(), FeedError> {
        Ok(())
    }

    async fn commit(_: &mut SqliteConnection) -> Result<(), FeedError> {
        Ok(())
    }

    async fn close_hard(session: SqliteConnection) {
        // The session is given up: what its thread says to that changes nothing.
        let _ = session.close_hard().await;
    }
}

#[cfg(unix)]
fn number(file: &std::fs::Metadata) -> u128 {
    use std::os::unix::fs::MetadataExt as _;
    u128::from(file.dev()) << 64 | u128::from(file.ino())
}

/// All files look the same.
#[cfg(not(unix))]
fn number(_: &std::fs::Metadata) -> u128 {
    1
}
