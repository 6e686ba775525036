//! The commands: `run`, `check`, `migrate`, `adopt`, `status`, `failed`. A service that ships its own outbox mounts
//! them with [`main`], or embeds [`crate::Relay`].
//!
//! `--config FILE` (or `OUTBOX_CONFIG`) names the configuration, `--set section.key=value` goes over it;
//! results go to standard output, complaints and the log to standard error. The exit codes are [`Exit`]:
//!
//! | code | means |
//! |---|---|
//! | 0 | success; for `run`: shut down on request |
//! | 1 | failed while running; restart it |
//! | 2 | wrong usage or configuration; a restart does not help |
//! | 3 | database unavailable, request refused, or tables not migrated |
//! | 4 | Kafka unavailable, or request refused |
//! | 5 | `check` found errors that prevent shipping |

mod adopt;
mod args;
mod check;
mod exit;
mod failed;
mod migrate;
mod run;
mod show;
mod status;

#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;

use std::{io, process::ExitCode};

pub use exit::{EXITS, Exit};

use service_kit::cli::{Mode, Signals, Terminal};

use crate::{
    BuildError, DatabaseOptions,
    config::Config,
    port::{FeedError, Operators},
    relay::{on, options_of, schema_is_current},
};
use args::{Command, PROGRAM};

/// The whole `main` of a relay.
pub async fn main() -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut terminal = Terminal::new(&mut out, &mut err);
    command(std::env::args_os(), std::env::vars(), &mut terminal).await.into()
}

/// One command, with everything of the process that it reads and writes.
async fn command(
    args: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
    env: impl IntoIterator<Item = (String, String)>,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let args = match PROGRAM.read_or_answer(args, terminal) {
        Ok(args) => args,
        Err(exit) => return exit,
    };
    let runs = matches!(args.command, Command::Run);
    let signals = match Signals::catch(runs, terminal) {
        Ok(signals) => signals,
        Err(exit) => return exit,
    };
    let env: Vec<(String, String)> = env.into_iter().collect();
    if let Command::Tool(tool) = &args.command {
        return PROGRAM.tool(tool, &args, &env, terminal);
    }
    let mode = if runs { Mode::Run } else { Mode::Command };
    let source = PROGRAM.source(&args);
    let (config, export) = match PROGRAM.configure(&args, &env, mode, terminal) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let exit = match args.command {
        // Answered above.
        Command::Tool(_) => Exit::Done,
        Command::Run => {
            run::report_start(&config, source);
            run::run(config, signals, terminal).await
        }
        Command::Check { json } => check::check(&config, json, terminal).await,
        Command::Migrate { print_grants: Some(role), kind, .. } => {
            migrate::print_grants(&config, (&role, kind), terminal).await
        }
        Command::Migrate { print, notify_trigger, .. } => {
            migrate::migrate(&config, print, notify_trigger, terminal).await
        }
        Command::Adopt { table, print, end } => {
            adopt::adopt(&config, (table, print, end), terminal).await
        }
        Command::Status { json } => status::status(&config, json, terminal).await,
        Command::Failed { verb } => failed::failed(&config, &verb, terminal).await,
    };
    export.flush();
    exit
}

/// The options of the database, or the exit after a complaint.
fn options(config: &Config, terminal: &mut Terminal<'_>) -> Result<DatabaseOptions, Exit> {
    options_of(config).map_err(|error| refused(&error, terminal))
}

/// The exit after a complaint about a relay that cannot be built.
fn refused(error: &BuildError, terminal: &mut Terminal<'_>) -> Exit {
    terminal.complain(error.to_string());
    error.into()
}

/// A session on a migrated outbox, or the exit after a complaint.
async fn open<F: Operators>(
    settings: &F::Settings,
    terminal: &mut Terminal<'_>,
) -> Result<F::Session, Exit> {
    let mut session = F::open(settings).await.map_err(|error| refused(&error.into(), terminal))?;
    match schema_is_current::<F>(settings, &mut session).await {
        Ok(()) => Ok(session),
        Err(error) => {
            F::close_hard(session).await;
            Err(refused(&error, terminal))
        }
    }
}

/// The exit after a call to the database failed.
fn failed_call(error: &FeedError, terminal: &mut Terminal<'_>) -> Exit {
    terminal.complain(format!("the database failed: {error}"));
    Exit::Database
}
