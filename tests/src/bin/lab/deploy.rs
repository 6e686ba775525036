//! `cargo xtask deploy`: a bad deploy that parks events up to the limit, and the release after it; or rolling restarts
//! while handlers are slow.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use tests::{
    Executable,
    deploy::{Size, bad_deploy},
    rolling::{self, rolling},
};

use crate::{lab, outcome::conclude};

const CHECKED: &str = "each event once, each aggregate in sequence, none missing";

#[derive(Args, Debug)]
pub(crate) struct DeployArgs {
    /// Events to send, ten for each aggregate; half of them are of the type that fails.
    #[arg(long, default_value_t = 100_000)]
    events: u32,
    /// Instead: restarts two processes in turns, so often, while handlers take one and five seconds.
    #[arg(long, value_name = "ROUNDS")]
    rolling: Option<u32>,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) async fn run(args: DeployArgs) -> ExitCode {
    let worker = Executable::worker(lab());
    let file = args.json.as_deref();
    if let Some(rounds) = args.rolling {
        let size = rolling::Size { rounds, processes: 2, aggregates: 20, partitions: 4 };
        let report = rolling(&worker, size).await;
        let mut violations = report.violations.clone();
        if report.parked > 0 || report.failures > 0 {
            violations.push(format!(
                "{} parked, {} failures of handlers that never fail",
                report.parked, report.failures
            ));
        }
        return conclude(&report, &violations, file, CHECKED);
    }
    // The limits that a configuration has by default; in a small run half of what a partition has, or none would be reached.
    let (aggregates, partitions) = ((args.events / 10).max(1), 6_u16);
    let size = Size {
        aggregates: aggregates.into(),
        per_aggregate: 10,
        partitions: partitions.into(),
        aggregates_max: (aggregates / u32::from(partitions) / 2).clamp(1, 1_000),
        events_max: 100_000,
    };
    let report = bad_deploy(&worker, size).await;
    conclude(&report, &report.violations, file, CHECKED)
}
