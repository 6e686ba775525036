//! The stock binary: its handlers come from the configuration alone, and the database from its URL.

use std::{ffi::OsString, future, io, process::ExitCode};

use super::{
    Exit, Terminal,
    args::{Command, PROGRAM},
    command::{catch, command},
};
use crate::{Routes, config::DatabaseKind};

/// The whole `main` of the stock binary, `inbox-consumer`: the commands of [`main`](super::main) with the
/// handlers that [`[[handlers]]`](crate::config::Declared) declares.
pub async fn stock() -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut terminal = Terminal::new(&mut out, &mut err);
    dispatched(std::env::args_os().collect(), std::env::vars().collect(), &mut terminal)
        .await
        .into()
}

/// One command on the database that the configuration names.
pub(super) async fn dispatched(
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let signals = match catch(&args, terminal) {
        Ok(signals) => signals,
        Err(exit) => return exit,
    };
    match kind(&args, &env) {
        #[cfg(feature = "sqlite")]
        DatabaseKind::Sqlite => {
            let none = |routes: Routes<sqlx::Sqlite>| future::ready(Ok::<_, String>(routes));
            command(args, env, signals, terminal, none).await
        }
        #[cfg(feature = "postgres")]
        _ => {
            let none = |routes: Routes<sqlx::Postgres>| future::ready(Ok::<_, String>(routes));
            command(args, env, signals, terminal, none).await
        }
        // A URL of PostgreSQL is refused by the configuration then.
        #[cfg(not(feature = "postgres"))]
        _ => {
            let none = |routes: Routes<sqlx::Sqlite>| future::ready(Ok::<_, String>(routes));
            command(args, env, signals, terminal, none).await
        }
    }
}

/// The database of the configuration. Where that cannot be read, any will do: the command says why.
fn kind(args: &[OsString], env: &[(String, String)]) -> DatabaseKind {
    let unread =
        if cfg!(feature = "postgres") { DatabaseKind::Postgres } else { DatabaseKind::Sqlite };
    let Ok(args) = PROGRAM.read::<Command>(args) else { return unread };
    let Ok(config) = PROGRAM.load(&args, env) else { return unread };
    config.database.kind().unwrap_or(unread)
}
