//! `cargo xtask relay-chaos`: relays that are killed and frozen while producers commit out of order.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;
use xtask::failure::{Explain, Failure, Outcome};

use crate::built::build;
use crate::services::Services;
use crate::toolchain;

/// How many faults, and what to do with the figures.
#[derive(Args, Debug)]
pub(crate) struct Faults {
    /// `kill -9`s of the active relay.
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// Freezes of the active relay past its lease.
    #[arg(long, default_value_t = 20)]
    freezes: u32,
    /// Makes the moments and the producers' choices.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Builds with the features that the tests have, so that nothing is built twice, and runs the chaos.
pub(crate) fn run(faults: &Faults) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    let programs = build(&["build", "--workspace", "--bins"])?;
    let chaos = programs.into_iter().find(|built| built.name == "relay_chaos");
    let chaos = chaos
        .ok_or_else(|| Failure("the package `tests` has no program `relay_chaos`".to_owned()))?;
    let services = Services::find_or_start()??;
    println!("services: {}", services.line());
    let mut command = Command::new(chaos.program);
    command.args([faults.kills, faults.freezes, faults.seed].map(|number| number.to_string()));
    let status = command.args(&faults.json).envs(services.environment()).status();
    let status = status.explain(|| "cannot run the chaos".to_owned())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
