//! How many exactly-once effects per second: ours beside loops written by hand and beside the limits of the
//! database, on a real Kafka and a real PostgreSQL. `cargo xtask bench` builds it and says where they are.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to its terminal"
)]

mod append;
mod candidate;
mod chart;
mod child;
mod form;
mod group;
mod grown;
mod judge;
mod latency;
mod measure;
mod options;
mod plan;
mod proxy;
mod registry;
mod relay;
mod report;
mod rounds;
mod scale;
mod scenario;
mod server;
mod sqlite;
mod steady;
mod topic;
mod work;

use std::process::ExitCode;

use clap::Parser as _;
use xtask::failure::Outcome;

use options::{Arguments, Verb};
use scenario::Scenario;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Outcome {
    match arguments.verb {
        Some(Verb::Work(order)) => work::run(order).await,
        None => {
            let options = arguments.options.checked()?;
            match options.scenario {
                // Nothing is consumed.
                Scenario::Append => append::run(options).await,
                Scenario::Relay => relay::run(options).await,
                _ => rounds::run(options).await,
            }
        }
    }
}
