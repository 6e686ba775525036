//! `cargo xtask soak`: the long run with killed and frozen consumers, judged by an independent checker.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;
use xtask::failure::{Explain, Failure, Outcome};

use crate::built::build;
use crate::services::Services;
use crate::toolchain;

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

/// Builds with the features that the tests have, so that nothing is built twice, and runs the soak.
pub(crate) fn run(length: &Length) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    let programs = build(&["build", "--workspace", "--bins"])?;
    let soak = programs.into_iter().find(|built| built.name == "soak");
    let soak =
        soak.ok_or_else(|| Failure("the package `tests` has no program `soak`".to_owned()))?;
    let services = Services::find_or_start()??;
    println!("services: {}", services.line());
    let mut command = Command::new(soak.program);
    command.args([length.events.to_string(), length.seed.to_string()]);
    let status = command.args(&length.json).envs(services.environment()).status();
    let status = status.explain(|| "cannot run the soak".to_owned())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
