//! `migrate`: the outbox tables.

use service_kit::cli::say_grants;

use super::{Exit, Terminal, on, options, refused};
use crate::{
    config::Config,
    port::{Operators, RoleKind},
    relay::address,
};

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

/// Writes out what gives a role the rights that it needs.
pub(super) async fn print_grants(
    config: &Config,
    whose: (&str, RoleKind),
    terminal: &mut Terminal<'_>,
) -> Exit {
    let options = match options(config, terminal) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    let schema = config.database.schema.as_deref();
    on!(&options, granted(_settings, schema, whose, terminal), &address(config))
}

async fn granted<F: Operators>(
    _: F::Settings,
    schema: Option<&str>,
    (role, kind): (&str, RoleKind),
    terminal: &mut Terminal<'_>,
) -> Exit {
    say_grants(F::grants(schema, role, kind), terminal)
}

async fn printed<F: Operators>(_: F::Settings, terminal: &mut Terminal<'_>) -> Exit {
    terminal.say(F::print());
    Exit::Done
}
