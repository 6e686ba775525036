//! `cargo xtask relay-chaos`: relays that are killed and frozen, databases that go back, receivers and networks that
//! fail, while producers commit out of order.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};
use xtask::failure::{Explain, Failure, Outcome};

use crate::built::build;
use crate::services::Services;
use crate::toolchain;

/// Where events go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Destination {
    /// To topics, out of a database that fails over, goes back and has its clock set.
    Kafka,
    /// To a receiver that answers whatever receivers answer, over a network that fails.
    Http,
}

/// How many faults, and what to do with the figures.
#[derive(Args, Debug)]
pub(crate) struct Faults {
    /// Where events go; with `http` the faults are kills and freezes.
    #[arg(long, value_enum, default_value_t = Destination::Kafka)]
    destination: Destination,
    /// `kill -9`s of the active relay.
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// Freezes of the active relay past its lease.
    #[arg(long, default_value_t = 20)]
    freezes: u32,
    /// Deaths of the primary database, with a replica that lags promoted.
    #[arg(long, default_value_t = 3)]
    failovers: u32,
    /// Databases put back to an older copy.
    #[arg(long, default_value_t = 2)]
    restores: u32,
    /// Clocks of the database that jump, by minutes or hours, either way.
    #[arg(long, default_value_t = 5)]
    clock_steps: u32,
    /// Rounds of rows whose topics are created some seconds later.
    #[arg(long, default_value_t = 5)]
    missing_topics: u32,
    /// With `http`: events that there are in the end, at least.
    #[arg(long, default_value_t = 10_000)]
    events: u32,
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
    toolchain::ensure(toolchain::TLS)?;
    let programs = build(&["build", "--workspace", "--bins"])?;
    let chaos = programs.into_iter().find(|built| built.name == "relay_chaos");
    let chaos = chaos
        .ok_or_else(|| Failure("the package `tests` has no program `relay_chaos`".to_owned()))?;
    let services = Services::find_or_start()??;
    println!("services: {}", services.line());
    let mut command = Command::new(chaos.program);
    let Faults { destination, kills, freezes, failovers, restores, clock_steps, .. } = faults;
    let Faults { missing_topics, events, seed, json, .. } = faults;
    let (name, numbers) = match destination {
        Destination::Kafka => {
            let all = [kills, freezes, failovers, restores, clock_steps, missing_topics, seed];
            ("kafka", all.to_vec())
        }
        Destination::Http => ("http", vec![kills, freezes, events, seed]),
    };
    command.arg(name).args(numbers.into_iter().map(ToString::to_string));
    let status = command.args(json).envs(services.environment()).status();
    let status = status.explain(|| "cannot run the chaos".to_owned())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
