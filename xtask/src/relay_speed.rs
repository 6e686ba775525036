//! `cargo xtask relay-speed`: how many rows a second a relay ships, whatever else is in the outbox.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use xtask::failure::Outcome;

use crate::program;

/// What else is in the outbox.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Around {
    /// Nothing.
    None,
    /// Rows behind one that was set aside.
    Held,
    /// Rows that were sent, which an old transaction keeps in the index.
    Sent,
    /// Rows that wait behind those that are measured.
    Unsent,
}

/// How much, beside what.
#[derive(Args, Debug)]
pub(crate) struct Course {
    /// Rows that are measured.
    #[arg(long, default_value_t = 300_000)]
    events: u32,
    /// How often.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Whether each batch is a transaction of Kafka.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    fencing: bool,
    /// What else is in the outbox.
    #[arg(long, value_enum, default_value_t = Around::None)]
    around: Around,
    /// How many rows of that.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Another relay, which takes turns with this one: the program `relay` of another checkout.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

pub(crate) fn run(course: &Course) -> Outcome<ExitCode> {
    let around = course.around.to_possible_value();
    let around = around.map_or_else(String::new, |value| value.get_name().to_owned());
    let texts = [
        course.events.to_string(),
        course.rounds.to_string(),
        course.fencing.to_string(),
        around,
        course.rows.to_string(),
    ];
    let mut arguments: Vec<_> = texts.into_iter().map(Into::into).collect();
    arguments.extend(course.beside.iter().map(Into::into));
    program::run("relay_speed", arguments)
}
