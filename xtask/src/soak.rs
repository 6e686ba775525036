//! `cargo xtask soak`: events into three consumers that are killed and frozen, judged by a checker of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use xtask::failure::{Explain, Outcome, failure};

use crate::folders::cargo;
use crate::services::Services;
use crate::toolchain;

/// How long a soak is.
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

/// Runs the soak on services that are found or started for it; red on the first violation.
pub(crate) fn run(length: &Length) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    let services = match Services::find_or_start()? {
        Ok(services) => services,
        Err(absent) => return failure(format!("a soak needs Kafka and PostgreSQL: {absent}")),
    };
    println!("services: {}", services.line());
    xtask::command::run(&mut cargo(&["build", "--package", "tests", "--bins"]))?;
    let mut command = cargo(&["run", "--quiet", "--package", "tests", "--bin", "soak", "--"]);
    command.envs(services.environment());
    command.args([length.events.to_string(), length.seed.to_string()]).args(&length.json);
    let status = command.status().explain(|| "cannot run the soak".to_owned())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
