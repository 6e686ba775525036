//! `migrate`: the outbox tables.

use std::future::{Ready, ready};

use service_kit::cli::say_grants;

use super::{Exit, Terminal, args::NotifyTrigger, failed_call, on, open, options, refused};
use crate::{
    config::Config,
    port::{Operators, RoleKind, whole},
    relay::address,
};

/// What is said where nobody is notified.
const NOBODY: &str = "SQLite has no notifications; remove `--notify-trigger`: the relay polls \
                      every `wake.poll_interval`";

/// Brings the tables up to date, and the trigger to what is wanted; or writes the statements out.
pub(super) async fn migrate(
    config: &Config,
    print: bool,
    trigger: Option<NotifyTrigger>,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let options = match options(config, terminal) {
        Ok(options) => options,
        Err(exit) => return exit,
    };
    let trigger = trigger.map(|trigger| trigger == NotifyTrigger::On);
    let exit = on!(&options, printed(_settings, print, trigger, terminal), &address(config));
    if let Some(exit) = exit {
        return exit;
    }
    match crate::migrate(config).await {
        Ok(applied) if applied.is_empty() => {
            terminal.say("the outbox tables are already up to date");
        }
        Ok(applied) => {
            let versions: Vec<String> = applied.iter().map(ToString::to_string).collect();
            terminal.say(format!("applied migrations {}", versions.join(", ")));
        }
        Err(error) => return refused(&error, terminal),
    }
    let Some(is_there) = trigger else { return Exit::Done };
    on!(&options, set_trigger(settings, is_there, terminal), &address(config))
}

/// The exit where nothing but text is asked for, or the trigger where there can be none.
fn printed<F: Operators>(
    _: F::Settings,
    print: bool,
    trigger: Option<bool>,
    terminal: &mut Terminal<'_>,
) -> Ready<Option<Exit>> {
    let statements = trigger.map(F::print_trigger);
    if statements == Some(None) {
        terminal.complain(NOBODY);
        return ready(Some(Exit::Usage));
    }
    if !print {
        return ready(None);
    }
    terminal.say(statements.flatten().map_or_else(F::print, ToOwned::to_owned));
    ready(Some(Exit::Done))
}

async fn set_trigger<F: Operators>(
    settings: F::Settings,
    is_there: bool,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let mut session = match open::<F>(&settings, terminal).await {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    let done =
        whole::<F, _>(&settings, &mut session, async |s| F::set_trigger(s, is_there).await).await;
    F::close_hard(session).await;
    if let Err(error) = done {
        return failed_call(&error, terminal);
    }
    terminal.say(if is_there {
        "each INSERT into outbox_events wakes the relays"
    } else {
        "no trigger wakes the relays"
    });
    Exit::Done
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

fn granted<F: Operators>(
    _: F::Settings,
    schema: Option<&str>,
    (role, kind): (&str, RoleKind),
    terminal: &mut Terminal<'_>,
) -> Ready<Exit> {
    ready(say_grants(F::grants(schema, role, kind), terminal))
}
