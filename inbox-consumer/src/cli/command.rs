//! Which command does what.

use std::{ffi::OsString, fmt::Display};

use inbox_store::internal::port::{Store, deadline};
use service_kit::cli::{Mode, Signals, Terminal};

use super::{
    Exit,
    args::{Command, PROGRAM},
    check, events, migrate, park, parked, prune, retire, run, skip, status,
};
use crate::Routes;

/// SIGTERM and SIGINT from now on, if the command is one that answers them: before anything that can take time.
pub(super) fn catch(args: &[OsString], terminal: &mut Terminal<'_>) -> Result<Signals, Exit> {
    let typed = PROGRAM.read::<Command>(args);
    let runs = typed.is_ok_and(|args| matches!(args.command, Command::Run { trial: false }));
    Signals::catch(runs, terminal)
}

/// One command, with everything of the process that it reads and writes.
pub(super) async fn command<DB, F, Fut, E>(
    args: Vec<OsString>,
    env: impl IntoIterator<Item = (String, String)>,
    signals: Signals,
    terminal: &mut Terminal<'_>,
    build: F,
) -> Exit
where
    DB: Store,
    F: FnOnce(Routes<DB>) -> Fut,
    Fut: Future<Output = Result<Routes<DB>, E>>,
    E: Display,
{
    let args = match PROGRAM.read_or_answer(args, terminal) {
        Ok(args) => args,
        Err(exit) => return exit,
    };
    if matches!(args.command, Command::Migrate { print: true, .. }) {
        return migrate::print::<DB>(terminal);
    }
    let env: Vec<(String, String)> = env.into_iter().collect();
    if let Command::Tool(tool) = &args.command {
        return PROGRAM.tool(tool, &args, &env, terminal);
    }
    let mode = match args.command {
        Command::Run { trial: false } => Mode::Run,
        Command::Run { trial: true } => Mode::Trial,
        _ => Mode::Command,
    };
    let source = PROGRAM.source(&args);
    let (config, export) = match PROGRAM.configure(&args, &env, mode, terminal) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let exit = match &args.command {
        Command::Migrate { print_grants: Some(role), kind, .. } => {
            migrate::print_grants::<DB>(&config, (role, (*kind).into()), terminal)
        }
        Command::Migrate { .. } => migrate::migrate::<DB>(&config, terminal).await,
        Command::Status { json, lanes, all } => {
            let (config, show) = (&config, status::Show { json: *json, lanes: *lanes, all: *all });
            deadline::patiently(status::status::<DB>(config, show, terminal)).await
        }
        Command::Parked { command } => {
            deadline::patiently(parked::parked::<DB>(&config, command, &env, terminal)).await
        }
        Command::Park(park) => {
            deadline::patiently(park::park::<DB>(&config, park, &env, terminal)).await
        }
        Command::Forget(forget) => {
            deadline::patiently(parked::forget::<DB>(&config, forget, &env, terminal)).await
        }
        Command::Skip(skip) => {
            deadline::patiently(skip::skip::<DB>(&config, skip, &env, terminal)).await
        }
        Command::Retire(retire) => {
            deadline::patiently(retire::retire::<DB>(&config, retire, &env, terminal)).await
        }
        Command::Events { command } => Box::pin(events::events(&config, command, terminal)).await,
        Command::Prune => deadline::patiently(prune::prune::<DB>(&config, terminal)).await,
        Command::Run { trial: false } => {
            run::report_start(&config, source);
            Box::pin(run::run(config, build(Routes::default()), signals, terminal)).await
        }
        Command::Run { .. } | Command::Check { .. } | Command::Tool(_) => {
            match build(Routes::default()).await {
                Err(error) => run::set_up_failed(error, terminal),
                Ok(routes) => match args.command {
                    Command::Check { json, sample } => {
                        let show = check::Show { json, sample: sample.map(usize::from) };
                        Box::pin(check::check(&config, routes, show, terminal)).await
                    }
                    _ => Box::pin(run::trial(config, routes, terminal)).await,
                },
            }
        }
    };
    export.flush();
    exit
}
