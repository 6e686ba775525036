//! `migrate`: the tables of inbox and outbox.

use inbox_store::internal::port::{Operators, RoleKind};
use service_kit::cli::say_grants;

use super::{Exit, Terminal, session::open};
use crate::config::Config;

/// Writes the statements out.
pub(super) fn print<DB: Operators>(terminal: &mut Terminal<'_>) -> Exit {
    terminal.say(format!("{}\n{}", DB::print(), DB::print_outbox()));
    Exit::Done
}

/// Writes out what gives a role the rights that it needs.
pub(super) fn print_grants<DB: Operators>(
    config: &Config,
    (role, kind): (&str, RoleKind),
    terminal: &mut Terminal<'_>,
) -> Exit {
    let (schema, audit_ends) =
        (config.database.schema.as_deref(), config.retention.audit.is_some());
    say_grants(DB::grants(schema, role, kind, audit_ends), terminal)
}

/// Brings the tables up to date.
pub(super) async fn migrate<DB: Operators>(config: &Config, terminal: &mut Terminal<'_>) -> Exit {
    let mut conn = match open::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let inbox = DB::migrate(&mut conn).await;
    let mut exit = told("inbox", inbox, DB::newest(), terminal);
    if exit == Exit::Done {
        let outbox = DB::migrate_outbox_beside(&mut conn).await;
        exit = told("outbox", outbox, DB::outbox_newest(), terminal);
    }
    DB::close_hard(conn).await;
    exit
}

/// What became of one set of tables.
fn told(
    tables: &str,
    applied: Result<Vec<i64>, sqlx::Error>,
    newest: i64,
    terminal: &mut Terminal<'_>,
) -> Exit {
    match applied {
        Ok(applied) if applied.is_empty() => {
            terminal.say(format!("the {tables} tables are already at version {newest}"));
            Exit::Done
        }
        Ok(applied) => {
            let versions: Vec<String> = applied.iter().map(ToString::to_string).collect();
            terminal
                .say(format!("applied migrations {} of the {tables} tables", versions.join(", ")));
            Exit::Done
        }
        Err(error) => {
            terminal.complain(format!(
                "migrating the {tables} tables failed and was rolled back: {}; use a role that \
                 may create tables, or run the output of `migrate --print` with your own tool",
                outbox_core::internal::said(&error)
            ));
            Exit::Database
        }
    }
}
