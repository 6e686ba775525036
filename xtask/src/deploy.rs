//! `cargo xtask deploy`: a bad deploy that parks events up to the limit, and the release after it; or rolling
//! restarts while handlers are slow.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use xtask::failure::Outcome;

use crate::program;

/// How large, and what to do with the figures.
#[derive(Args, Debug)]
pub(crate) struct Size {
    /// Events to send, ten for each aggregate; half of them are of the type that fails.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Instead: restarts two processes in turns, so often, while handlers take one and five seconds.
    #[arg(long, value_name = "ROUNDS")]
    rolling: Option<u32>,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(size: &Size) -> Outcome<ExitCode> {
    let mut arguments: Vec<OsString> = match size.rolling {
        Some(rounds) => vec!["rolling".into(), rounds.to_string().into()],
        None => vec![size.events.to_string().into()],
    };
    arguments.extend(size.json.iter().map(Into::into));
    program::run("deploy", arguments)
}
