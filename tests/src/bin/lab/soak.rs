//! `cargo xtask soak`: a long run with killed and frozen consumers, judged by an independent checker.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use tests::{Executable, soak::run::soak};

use crate::{lab, outcome::conclude};

#[derive(Args, Debug)]
pub(crate) struct SoakArgs {
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

pub(crate) async fn run(args: SoakArgs) -> ExitCode {
    let report = soak(&Executable::worker(lab()), args.events, args.seed).await;
    let checked = "each event once, each aggregate in sequence, none missing";
    conclude(&report, &report.violations, args.json.as_deref(), checked)
}
