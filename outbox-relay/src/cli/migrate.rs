//! `migrate`: the outbox tables.

use super::{Exit, Terminal, on, options, refused};
use crate::{config::Config, port::Feed, relay::address};

/// Brings the tables up to date, or writes the statements out.
pub(super) async fn migrate(config: &Config, print: bool, terminal: &mut Terminal<'_>) -> Exit {
    if print {
        let options = match options(config, terminal) {
            Ok(options) => options,
            Err(exit) => return exit,
        };
        return on!(&options, printed(_settings, terminal), &address(config));
    }
    match crate::migrate(config).await {
        Ok(applied) if applied.is_empty() => {
            terminal.say("the outbox tables are up to date already");
            Exit::Done
        }
        Ok(applied) => {
            let versions: Vec<String> = applied.iter().map(ToString::to_string).collect();
            terminal.say(format!("applied migrations {}", versions.join(", ")));
            Exit::Done
        }
        Err(error) => refused(&error, terminal),
    }
}

async fn printed<F: Feed>(_: F::Settings, terminal: &mut Terminal<'_>) -> Exit {
    terminal.say(F::print());
    Exit::Done
}
