//! Sessions of commands, and what is said when the database fails one.

use std::time::Duration;

use inbox_store::internal::port::{OpenError, Operators, StoreFault};

use super::{Exit, Terminal};
use crate::{
    config::Config,
    consumer::{schema_is_current, settings},
};

/// Tries against a transaction that holds what a command changes.
const TRIES_MAX: u32 = 5;

/// An error of the database for people, with the role where advice needs it.
pub(super) fn describe_error<DB: Operators>(config: &Config, error: &sqlx::Error) -> String {
    let settings = settings::<DB>(config).ok();
    outbox_core::internal::for_role(&DB::explain(error), settings.as_ref().and_then(DB::role))
}

/// A session for a command, or the exit after a complaint.
pub(super) async fn open<DB: Operators>(
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<DB::Connection, Exit> {
    let opened = match settings::<DB>(config) {
        Ok(settings) => DB::open(&settings).await,
        Err(error) => Err(error),
    };
    opened.map_err(|error| {
        terminal.complain(error.to_string());
        match error {
            OpenError::Outage(_) | OpenError::Refused(_) => Exit::Database,
        }
    })
}

/// A session on tables of this build's version.
pub(super) async fn open_current<DB: Operators>(
    config: &Config,
    terminal: &mut Terminal<'_>,
) -> Result<DB::Connection, Exit> {
    let mut conn = open::<DB>(config, terminal).await?;
    if let Err(error) = schema_is_current::<DB>(&mut conn).await {
        terminal.complain(error.to_string());
        DB::close_hard(conn).await;
        return Err(Exit::Database);
    }
    Ok(conn)
}

/// The database failed in the middle.
pub(super) fn report_failure<DB: Operators>(
    config: &Config,
    error: &sqlx::Error,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let error = describe_error::<DB>(config, error);
    terminal.complain(format!(
        "the database failed: {error}; what is reported above was done, nothing else: run the \
         command again"
    ));
    Exit::Database
}

/// Whether a failed statement met another transaction, so that it is worth another try; waits a moment.
pub(super) async fn again<DB: Operators>(error: &sqlx::Error, tries: &mut u32) -> bool {
    *tries += 1;
    let worth =
        matches!(DB::fault(error), StoreFault::Conflict | StoreFault::Locked) && *tries < TRIES_MAX;
    if worth {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    worth
}
