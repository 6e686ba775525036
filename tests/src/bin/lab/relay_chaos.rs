//! `cargo xtask relay-chaos`: relays that are killed and frozen, databases that go back, receivers and networks that
//! fail, while producers commit out of order.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};
use tests::{
    Executable,
    relay_chaos::{Plan, chaos, http},
};

use crate::{lab, outcome::conclude};

const CHECKED: &str =
    "nothing lost that the database has, each aggregate in order, duplicates only around faults";

/// Where events go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Destination {
    /// To topics, out of a database that fails over, goes back and has its clock set.
    Kafka,
    /// To a receiver that answers whatever receivers answer, over a network that fails.
    Http,
}

#[derive(Args, Debug)]
pub(crate) struct RelayChaosArgs {
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

pub(crate) async fn run(args: RelayChaosArgs) -> ExitCode {
    let relay = Executable::relay(lab());
    let file = args.json.as_deref();
    let RelayChaosArgs { kills, freezes, failovers, restores, clock_steps, .. } = args;
    let RelayChaosArgs { destination, missing_topics, events, seed, .. } = args;
    match destination {
        Destination::Kafka => {
            let plan = Plan { kills, freezes, failovers, restores, clock_steps, missing_topics };
            let report = chaos(&relay, plan, seed.into()).await;
            conclude(&report, &report.violations, file, CHECKED)
        }
        Destination::Http => {
            let plan = http::Plan { kills, freezes, events };
            let report = http::chaos(&relay, plan, seed.into()).await;
            conclude(&report, &report.violations, file, CHECKED)
        }
    }
}
