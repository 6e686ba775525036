//! `parked`: events that were set aside, in the hands of a person.
//!
//! The commands look, and write intents with their row in the audit. The work itself (running a
//! handler, removing a row) is the owner's, in order with everything else of its lane: so any machine
//! that reaches the database will do, and two operators at once do no harm.

mod act;
mod args;
mod audit;
mod forget;
mod list;
mod show;
mod wait;
mod words;

use std::time::Duration;

use inbox_store::port::{Intent, Operators, StoreFault};

use super::{Exit, Terminal, open, told};
use crate::{config::Config, consumer::schema_is_current};

pub(super) use args::{Hand, Parked, who};
pub(super) use forget::{Forget, forget};
pub(super) use words::counted;

/// Tries against a transaction that holds what a command changes.
const TRIES_MAX: u32 = 5;

/// Runs one of the commands.
pub(super) async fn parked<DB: Operators>(
    config: &Config,
    command: &Parked,
    env: &[(String, String)],
    terminal: &mut Terminal<'_>,
) -> Exit {
    let plan = match act::plan(command, env) {
        Ok(plan) => plan,
        Err(text) => {
            terminal.complain(text);
            return Exit::Usage;
        }
    };
    let mut conn = match opened::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let done = match (command, plan) {
        (Parked::List(list), _) => list::list::<DB>(&mut conn, config, list, terminal).await,
        (Parked::Show { seq, json }, _) => {
            show::show::<DB>(&mut conn, config, (*seq, *json), terminal).await
        }
        (Parked::Audit(audit), _) => audit::audit::<DB>(&mut conn, config, audit, terminal).await,
        (Parked::Release(_) | Parked::Discard(_), Some(plan)) => {
            act::act::<DB>(&mut conn, config, &plan, terminal).await
        }
        (Parked::Release(_) | Parked::Discard(_), None) => Ok(Exit::Usage),
    };
    DB::close_hard(conn).await;
    done.unwrap_or_else(|error| failed::<DB>(config, &error, terminal))
}

/// A session on tables of this build's version.
pub(super) async fn opened<DB: Operators>(
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
pub(super) fn failed<DB: Operators>(
    config: &Config,
    error: &sqlx::Error,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let error = told::<DB>(config, error);
    terminal.complain(format!(
        "the database failed: {error}; what was said above is done, nothing else is: run the command \
         again"
    ));
    Exit::Database
}

/// Whether a failed statement met another transaction, so that it is worth another try; waits a moment.
pub(super) async fn again<DB: Operators>(error: &sqlx::Error, tries: &mut u32) -> bool {
    *tries += 1;
    let worth = DB::fault(error) == StoreFault::Conflict && *tries < TRIES_MAX;
    if worth {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    worth
}

/// The verb, as sentences use it.
fn verb(intent: Intent) -> (&'static str, &'static str) {
    match intent {
        Intent::Discard => ("discard", "discarded"),
        Intent::Release => ("release", "released"),
    }
}
