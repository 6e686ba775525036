//! `cargo xtask relay-readings`: what a look for metrics costs the database beside many rows that wait.

use std::process::ExitCode;

use clap::Args;
use xtask::failure::Outcome;

use crate::program;

/// How many rows, and how often.
#[derive(Args, Debug)]
pub(crate) struct Stock {
    /// Rows that wait.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u32,
    /// Looks.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
}

pub(crate) fn run(stock: &Stock) -> Outcome<ExitCode> {
    let texts = [stock.rows.to_string(), stock.rounds.to_string()];
    program::run("relay_readings", texts.into_iter().map(Into::into).collect())
}
