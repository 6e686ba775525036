//! `cargo xtask deploy`: a bad deploy that parks events up to the limit, and the release after it.

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
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(size: &Size) -> Outcome<ExitCode> {
    let mut arguments = vec![size.events.to_string().into()];
    arguments.extend(size.json.iter().map(Into::into));
    program::run("deploy", arguments)
}
