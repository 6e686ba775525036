//! `cargo xtask drill`: faults against a consumer with its default configuration, and how long each takes to have a
//! name on the channels that an operator has.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use xtask::failure::Outcome;

use crate::program;

/// What to play, and what to do with the figures.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// `kill -9`s at random moments that no event is to blame for, in the case `kills`.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// For work on the cases themselves: what is there already need not be built anew.
    #[arg(long, default_value = "release", hide = true)]
    profile: String,
    /// Only these; otherwise all.
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
}

pub(crate) fn run(choice: &Choice) -> Outcome<ExitCode> {
    let Choice { kills, json, profile, cases } = choice;
    let cases = if cases.is_empty() { "all".to_owned() } else { cases.join(",") };
    let mut arguments = vec![kills.to_string().into(), cases.into()];
    arguments.extend(json.iter().map(Into::into));
    program::run_as(profile, "drill", arguments)
}
