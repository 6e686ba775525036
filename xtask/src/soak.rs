//! `cargo xtask soak`: the long run with killed and frozen consumers, judged by an independent checker.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use xtask::failure::Outcome;

use crate::program;

/// How long, and what to do with the figures.
#[derive(Args, Debug)]
pub(crate) struct Length {
    /// Distinct events to send; one in twenty is sent twice.
    #[arg(long, default_value_t = 200_000)]
    events: u64,
    /// Makes the events' ids.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(length: &Length) -> Outcome<ExitCode> {
    let mut arguments = vec![length.events.to_string().into(), length.seed.to_string().into()];
    arguments.extend(length.json.iter().map(Into::into));
    program::run("soak", arguments)
}
