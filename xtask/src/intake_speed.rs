//! `cargo xtask intake-speed`: how many events a second the HTTP intake takes, beside a receiver written by hand.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use xtask::failure::Outcome;

use crate::program;

/// How our handler writes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Way {
    /// A statement for each event, awaited.
    Awaited,
    /// The same, queued.
    Queued,
    /// A statement for each run.
    Batch,
}

/// How much, and how.
#[derive(Args, Debug)]
pub(crate) struct Course {
    /// Events of each round, of each receiver.
    #[arg(long, default_value_t = 20_000)]
    events: u32,
    /// How often.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// Events of a request.
    #[arg(long, default_value_t = 1)]
    per_request: u32,
    /// How our handler writes.
    #[arg(long, value_enum, default_value_t = Way::Awaited)]
    way: Way,
    /// Milliseconds by which PostgreSQL holds up each COMMIT, as a slow disk does (its `commit_delay`).
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100))]
    commit_delay: u32,
}

pub(crate) fn run(course: &Course) -> Outcome<ExitCode> {
    let way = course.way.to_possible_value();
    let arguments = [
        course.events.to_string(),
        course.rounds.to_string(),
        course.connections.to_string(),
        course.per_request.to_string(),
        way.map_or_else(String::new, |value| value.get_name().to_owned()),
        course.commit_delay.to_string(),
    ];
    program::run_as("release", "intake_speed", arguments.into_iter().map(Into::into).collect())
}
