//! A database of the test's own: a schema of a PostgreSQL, or an SQLite in memory or in a file.

use inbox_conformance::Probe;
use inbox_store::internal::port::{Address, Sessions};

use crate::config::Config;

use super::TestError;

/// What a test leaves behind when nobody cleans up.
pub(super) struct Place<DB: Probe> {
    pub(super) settings: DB::Settings,
    /// Removes what the test made.
    pub(super) remove: Option<String>,
}

impl<DB: Probe> Place<DB> {
    /// The database that a configuration names, as it is.
    pub(super) fn of(config: &Config) -> Result<Self, TestError> {
        let address = Address {
            url: config.database.url.expose(),
            tls: config.database.tls,
            schema: config.database.schema.as_deref(),
            application: "inbox-test",
            statement_cache: usize::from(config.database.statement_cache),
        };
        let settings = <DB as Sessions>::settings(&address).map_err(TestError::new)?;
        Ok(Self { settings, remove: None })
    }

    /// Makes the tables of inbox and outbox.
    pub(super) async fn migrate(&self) -> Result<(), TestError> {
        let mut session = DB::open(&self.settings).await.map_err(TestError::new)?;
        let migrated = match DB::migrate(&mut session).await {
            Ok(_) => DB::migrate_outbox_beside(&mut session).await.map(drop),
            Err(error) => Err(error),
        };
        DB::close_hard(session).await;
        migrated.map_err(|error| TestError::of("the inbox tables cannot be made", error))
    }

    /// Removes what the test made; another runtime does it, since the test's own may be ending.
    pub(super) fn removed(&mut self) -> Result<(), TestError> {
        let Some(sql) = self.remove.take() else { return Ok(()) };
        let settings = self.settings.clone();
        let task = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(TestError::new)?;
            runtime.block_on(async {
                let mut conn = DB::administer(&settings).await.map_err(TestError::new)?;
                let done = DB::run(&mut conn, &sql).await;
                DB::close_hard(conn).await;
                done.map(drop).map_err(TestError::new)
            })
        });
        let removed = task.join().map_err(|_| TestError::new("the thread that cleans up panicked"));
        removed?.map_err(|error| TestError::of("the test's schema cannot be dropped", error))
    }
}
