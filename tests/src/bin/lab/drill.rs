//! `cargo xtask drill`: faults against a consumer with its default configuration, and how many seconds until an
//! operator can see each on the channels there are.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, builder::PossibleValuesParser};
use tests::{
    Executable,
    drill::{CASES, Plan, play},
};

use crate::{
    lab,
    outcome::{judge, save},
};

#[derive(Args, Debug)]
pub(crate) struct DrillArgs {
    /// `kill -9`s at random moments that no event is to blame for, in the case `kills`.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only these; otherwise all.
    #[arg(value_name = "CASE", value_parser = PossibleValuesParser::new(CASES))]
    cases: Vec<String>,
}

pub(crate) async fn run(args: DrillArgs) -> ExitCode {
    let DrillArgs { kills, json, mut cases } = args;
    if cases.is_empty() {
        cases = CASES.map(str::to_owned).into();
    }
    let report = play(&Executable::worker(lab()), &Plan { kills, cases }).await;
    if !save(&report, json.as_deref()) {
        return ExitCode::FAILURE;
    }
    println!("\n{}", report.table());
    judge(&report.faults(), "everything had its name in time, no effect is lost or doubled")
}
