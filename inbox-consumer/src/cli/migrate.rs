//! `migrate`: the inbox tables.

use super::{Exit, Terminal, open};
use crate::{config::Config, pipeline::port::Store};

/// Writes the statements out.
pub(super) fn print<DB: Store>(terminal: &mut Terminal<'_>) -> Exit {
    terminal.say(DB::print());
    Exit::Done
}

/// Brings the tables up to date.
pub(super) async fn migrate<DB: Store>(config: &Config, terminal: &mut Terminal<'_>) -> Exit {
    let mut conn = match open::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let exit = match DB::migrate(&mut conn).await {
        Ok(applied) if applied.is_empty() => {
            terminal.say(format!("the inbox tables are at version {} already", DB::newest()));
            Exit::Done
        }
        Ok(applied) => {
            let versions: Vec<String> = applied.iter().map(ToString::to_string).collect();
            terminal.say(format!("applied migrations {}", versions.join(", ")));
            Exit::Done
        }
        Err(error) => {
            terminal.complain(format!(
                "the migration failed and nothing of it is left: {error}; it needs a role that may \
                 create tables, or run the output of `migrate --print` with a tool of your own"
            ));
            Exit::Database
        }
    };
    DB::close_hard(conn).await;
    exit
}
