//! The commands of a consumer's binary: `run`, `check`, `events`, `migrate`, `status`, `prune`, `parked`,
//! `park`, `forget`, `skip`, `retire`.
//!
//! ```no_run
//! # #[cfg(feature = "postgres")] mod example {
//! use std::process::ExitCode;
//!
//! # use inbox_consumer::{Event, Handler, HandlerResult, Tx};
//! # struct CreditAccount;
//! # impl Handler<sqlx::Postgres> for CreditAccount {
//! #     type Event = i64;
//! #     async fn handle(&self, _: &Event<i64>, _: &mut Tx<'_, sqlx::Postgres>) -> HandlerResult { Ok(()) }
//! # }
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     inbox_consumer::cli::main(|routes| routes.on("OrderPaid", CreditAccount)).await
//! }
//! # }
//! ```
//!
//! Which database it is follows from the handlers. `--config FILE` (or `INBOX_CONFIG`) names the
//! configuration, `--set section.key=value` goes over it; results go to standard output, complaints
//! and the log to standard error. The exit codes are [`Exit`]:
//!
//! | code | means |
//! |---|---|
//! | 0 | success; for `run`: shut down on request |
//! | 1 | failed while running; restart it |
//! | 2 | wrong usage, configuration or handlers; a restart does not help |
//! | 3 | database unavailable, request refused, or tables not migrated |
//! | 4 | Kafka unavailable, or request refused |
//! | 5 | `check` found errors that prevent a start |
//! | 6 | nothing was changed: not found, or `--yes` or `--force` is required |
//! | 7 | the action that `--wait` waited for did not happen, or failed |
//! | 8 | a handler blocked its thread permanently; other processes acquire its partitions; restart it |

mod args;
mod check;
mod command;
mod correcting;
mod events;
mod exit;
mod hand;
mod migrate;
mod park;
mod parked;
mod prune;
mod retire;
mod run;
mod session;
mod skip;
mod status;
mod stock;
mod table;
mod words;

#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, fmt::Display, future, io, process::ExitCode};

pub use exit::{EXITS, Exit};
#[doc(hidden)]
pub use stock::stock;

use inbox_store::internal::port::Store;
use service_kit::cli::Terminal;

use crate::Routes;
use command::{catch, command};

/// The whole `main` of a consumer. `build` registers the handlers; the database is inferred from them.
pub async fn main<DB: Store>(build: impl FnOnce(Routes<DB>) -> Routes<DB>) -> ExitCode {
    main_with(|routes| future::ready(Ok::<_, String>(build(routes)))).await
}

/// As [`main`], for a set-up that awaits, can fail, or needs settings of its own. It is called for
/// `run` and `check` only.
pub async fn main_with<DB, F, Fut, E>(build: F) -> ExitCode
where
    DB: Store,
    F: FnOnce(Routes<DB>) -> Fut,
    Fut: Future<Output = Result<Routes<DB>, E>>,
    E: Display,
{
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut terminal = Terminal::new(&mut out, &mut err);
    let args: Vec<OsString> = std::env::args_os().collect();
    let exit = match catch(&args, &mut terminal) {
        Ok(signals) => command(args, std::env::vars(), signals, &mut terminal, build).await,
        Err(exit) => exit,
    };
    exit.into()
}
