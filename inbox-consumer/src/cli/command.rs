//! Which command does what.

use std::fmt::Display;

use inbox_store::internal::port::{Store, deadline};
use service_kit::cli::Terminal;

use super::{
    Exit,
    args::{Command, PROGRAM},
    check, events, migrate, park, parked, prune, retire, run, skip, status,
};
use crate::Routes;

/// One command, with everything of the process that it reads and writes.
pub(super) async fn command<DB, F, Fut, E>(
    args: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
    env: impl IntoIterator<Item = (String, String)>,
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
    let exports = matches!(args.command, Command::Run { trial: false });
    let (config, export) = match PROGRAM.configure(&args, &env, exports, terminal) {
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
        Command::Run { .. } | Command::Check { .. } => match build(Routes::default()).await {
            Err(error) => {
                terminal.complain(format!("the set-up of the handlers failed: {error}"));
                Exit::Runtime
            }
            Ok(routes) => match args.command {
                Command::Check { json, sample } => {
                    let show = check::Show { json, sample: sample.map(usize::from) };
                    Box::pin(check::check(&config, routes, show, terminal)).await
                }
                Command::Run { trial: true } => {
                    Box::pin(run::trial(config, routes, terminal)).await
                }
                _ => Box::pin(run::run(config, routes, terminal)).await,
            },
        },
    };
    export.flush();
    exit
}
