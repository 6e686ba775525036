//! `cargo xtask intake-speed`: how many events a second the HTTP intake accepts, beside a receiver written by hand.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use tests::intake::speed::{Course, Way, measure};

#[derive(Args, Debug)]
pub(crate) struct IntakeSpeedArgs {
    /// Events of each round, of each receiver.
    #[arg(long, default_value_t = 20_000)]
    events: usize,
    /// How often.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Events of a request.
    #[arg(long, default_value_t = 1)]
    per_request: usize,
    /// Events a second that are sent, however fast they are answered; without it each connection sends its next
    /// request as soon as the last one is answered.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// How our handler writes.
    #[arg(long, value_enum, default_value_t = Way::Awaited)]
    way: Way,
    /// Milliseconds by which PostgreSQL delays each COMMIT, as a slow disk does (its `commit_delay`).
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100))]
    commit_delay: u32,
}

pub(crate) async fn run(args: IntakeSpeedArgs) -> ExitCode {
    let IntakeSpeedArgs { events, rounds, connections, per_request, rate, way, commit_delay } =
        args;
    let commit_delay = Duration::from_millis(commit_delay.into());
    let course = Course { events, rounds, connections, per_request, rate, way, commit_delay };
    let report = measure(course).await;
    println!("{course:?}");
    println!("events a second: {}; by hand {}", report.ours, report.by_hand);
    println!("pair by pair {} of it", report.ratio);
    let [ours, by_hand] = report.waits;
    println!("a request took: {ours}; by hand {by_hand}");
    let [ours, by_hand] = report.used;
    println!("processor time of an event: {ours}; by hand {by_hand}");
    ExitCode::SUCCESS
}
