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

use inbox_store::internal::port::Operators;

use super::{
    Exit, Terminal,
    session::{open_current, report_failure},
};
use crate::config::Config;

pub(super) use args::Parked;
pub(super) use forget::{Forget, forget};
#[cfg(test)]
pub(super) use list::{rendered as listed, summary};

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
    let mut conn = match open_current::<DB>(config, terminal).await {
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
    done.unwrap_or_else(|error| report_failure::<DB>(config, &error, terminal))
}
