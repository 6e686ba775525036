//! Deploys on the services in the environment: a bad one, `deploy EVENTS [JSON-FILE]`, or rolling restarts while
//! handlers are slow, `deploy rolling ROUNDS [JSON-FILE]`.

use std::process::ExitCode;

use serde::Serialize;
use tests::{
    deploy::{Size, bad_deploy},
    rolling::{self, rolling},
};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["rolling", rounds, ref file @ ..] => match rounds.parse() {
            Ok(rounds) => restarts(rounds, file.first().copied()).await,
            Err(_) => usage(),
        },
        [events, ref file @ ..] => match events.parse() {
            Ok(events) => bad(events, file.first().copied()).await,
            Err(_) => usage(),
        },
        [] => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: deploy EVENTS [JSON-FILE] | deploy rolling ROUNDS [JSON-FILE]");
    ExitCode::from(2)
}

async fn bad(events: i64, file: Option<&str>) -> ExitCode {
    // The limits that a configuration has by default.
    let size = Size {
        aggregates: (events / 10).max(1),
        per_aggregate: 10,
        partitions: 6,
        aggregates_max: 1_000,
        events_max: 100_000,
    };
    let report = bad_deploy(&worker(), size).await;
    ended(&report, &report.violations, file)
}

async fn restarts(rounds: u32, file: Option<&str>) -> ExitCode {
    let size = rolling::Size { rounds, processes: 2, aggregates: 20, partitions: 4 };
    let report = rolling(&worker(), size).await;
    let mut wrong = report.violations.clone();
    if report.parked > 0 || report.failures > 0 {
        wrong.push(format!(
            "{} parked, {} failures of handlers that never fail",
            report.parked, report.failures
        ));
    }
    ended(&report, &wrong, file)
}

fn worker() -> std::path::PathBuf {
    std::env::current_exe().expect("this program has a path").with_file_name("worker")
}

fn ended(report: &impl Serialize, violations: &[String], file: Option<&str>) -> ExitCode {
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    println!("{json}");
    if let Some(file) = file
        && let Err(error) = std::fs::write(file, &json)
    {
        eprintln!("{file} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    if violations.is_empty() {
        println!("no violation: each event once, each aggregate in sequence, none missing");
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", violations.join("; "));
    ExitCode::FAILURE
}
