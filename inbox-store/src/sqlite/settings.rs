//! What a session needs: the file and its limits. Made once, cheap to clone.

use std::{fmt, path::Path, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::writer::{self, Turn};
use crate::shared::SettingsError;

/// Pages in the WAL before they are copied into the file, by the session whose COMMIT it was: 16 MB, four
/// times SQLite's own. Transactions change the same pages again and again, and each is copied once.
const PAGES_PER_CHECKPOINT: &str = "4000";

/// The settings of sessions on SQLite. All settings of one file share its writer's turn.
#[derive(Clone)]
pub struct SqliteSettings {
    pub(super) options: SqliteConnectOptions,
    pub(super) file: PathBuf,
    pub(super) turn: Arc<Turn>,
}

impl SqliteSettings {
    /// Reads a URL `sqlite://path/to/file` or `sqlite:/path/to/file`. The file is made when it is
    /// missing, its folder is not. Other processes are waited for 5 s.
    ///
    /// # Errors
    ///
    /// When the URL is not one of SQLite, names no file (`:memory:`), or its folder is missing.
    pub fn new(url: &str) -> Result<Self, SettingsError> {
        let scheme = url.starts_with("sqlite:");
        let options =
            SqliteConnectOptions::from_str(url).ok().filter(|_| scheme).ok_or_else(|| {
                SettingsError(format!(
                    "cannot parse the database URL {url:?}: write it as sqlite://path/to/file.db"
                ))
            })?;
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(SettingsError(
                "an in-memory SQLite database cannot hold an inbox: each session would see its \
                 own; name a file"
                    .into(),
            ));
        }
        let file = whole_path(options.get_filename())?;
        Ok(Self::on(file.clone(), options.filename(&file)))
    }

    /// A database in memory, which lives as long as one of its sessions. For tests.
    #[cfg(feature = "testing")]
    pub fn in_memory() -> Result<Self, SettingsError> {
        // Each time this is read it names another one, which all sessions of these options share.
        let options = SqliteConnectOptions::from_str("sqlite::memory:");
        let options = options.map_err(|error| SettingsError(error.to_string()))?;
        Ok(Self::on(options.get_filename().to_owned(), options))
    }

    /// The connection options of a session.
    #[doc(hidden)]
    pub fn session_options(&self) -> &SqliteConnectOptions {
        &self.options
    }

    fn on(file: PathBuf, options: SqliteConnectOptions) -> Self {
        Self {
            options: options
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .foreign_keys(true)
                // The savepoint of each transaction keeps a copy of every page that changes. In a file,
                // which is the default, that took a quarter of the writer's time.
                .pragma("temp_store", "MEMORY")
                .pragma("wal_autocheckpoint", PAGES_PER_CHECKPOINT)
                .busy_timeout(Duration::from_secs(5))
                .disable_statement_logging(),
            turn: writer::turn(&file),
            file,
        }
    }

    /// How long a transaction waits for the writer of another process.
    #[must_use]
    pub fn busy_timeout(mut self, longest: Duration) -> Self {
        self.options = self.options.busy_timeout(longest);
        self
    }

    /// How many prepared statements a session keeps.
    #[must_use]
    pub fn statement_cache(mut self, capacity: usize) -> Self {
        self.options = self.options.statement_cache_capacity(capacity);
        self
    }
}

impl fmt::Debug for SqliteSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSettings").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The one path of a file, however it was written, so that its sessions share one turn.
fn whole_path(path: &Path) -> Result<PathBuf, SettingsError> {
    let name = path.file_name();
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // A file that is there may be a link: follow it.
    path.canonicalize()
        .or_else(|_| folder.canonicalize().map(|folder| folder.join(name.unwrap_or_default())))
        .map_err(|error| {
            SettingsError(format!(
                "cannot use the folder of the SQLite file {}: {error}; create it or correct the \
                 URL",
                path.display()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_in_memory_is_refused() {
        for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite://x?mode=memory"] {
            assert!(SqliteSettings::new(url).is_err(), "{url}");
        }
    }

    #[test]
    fn one_file_has_one_turn_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let one = SqliteSettings::new(&format!("sqlite://{path}/inbox.db")).unwrap();
        let two = SqliteSettings::new(&format!("sqlite://{path}/../{}/inbox.db", name(&folder)));
        assert!(Arc::ptr_eq(&one.turn, &two.unwrap().turn));
        let other = SqliteSettings::new(&format!("sqlite://{path}/other.db")).unwrap();
        assert!(!Arc::ptr_eq(&one.turn, &other.turn));
    }

    fn name(folder: &tempfile::TempDir) -> String {
        folder.path().file_name().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn a_missing_folder_is_refused() {
        assert!(SqliteSettings::new("sqlite:///no/such/folder/inbox.db").is_err());
    }
}
