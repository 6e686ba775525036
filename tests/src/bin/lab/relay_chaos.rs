//! Runs the relay's chaos on the services in the environment:
//! `relay_chaos kafka KILLS FREEZES FAILOVERS RESTORES CLOCK-STEPS MISSING-TOPICS SEED [JSON-FILE]`, or
//! `relay_chaos http KILLS FREEZES EVENTS SEED [JSON-FILE]`.

use std::process::ExitCode;

use serde::Serialize;
use tests::relay_chaos::{Plan, chaos, http};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let destination = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    let numbers: Vec<u32> = arguments.iter().map_while(|text| text.parse().ok()).collect();
    let own = std::env::current_exe().expect("this program has a path");
    let relay = own.with_file_name("relay");
    let file = arguments.get(numbers.len()).map(String::as_str);
    match (destination.as_str(), &numbers[..]) {
        ("kafka", &[kills, freezes, failovers, restores, clock_steps, missing_topics, seed]) => {
            let plan = Plan { kills, freezes, failovers, restores, clock_steps, missing_topics };
            let report = chaos(&relay, plan, u64::from(seed)).await;
            told(file, &report, &report.violations)
        }
        ("http", &[kills, freezes, events, seed]) => {
            let plan = http::Plan { kills, freezes, events };
            let report = http::chaos(&relay, plan, u64::from(seed)).await;
            told(file, &report, &report.violations)
        }
        _ => {
            eprintln!(
                "usage: relay_chaos kafka KILLS FREEZES FAILOVERS RESTORES CLOCK-STEPS MISSING-TOPICS SEED \
                 [JSON-FILE], or relay_chaos http KILLS FREEZES EVENTS SEED [JSON-FILE]"
            );
            ExitCode::from(2)
        }
    }
}

fn told(file: Option<&str>, report: &impl Serialize, violations: &[String]) -> ExitCode {
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    if let Some(file) = file
        && let Err(error) = std::fs::write(file, &json)
    {
        eprintln!("{file} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    println!("{json}");
    if violations.is_empty() {
        println!(
            "no violation: nothing lost that the database has, each aggregate in order, copies only around \
             faults"
        );
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", violations.join("; "));
    ExitCode::FAILURE
}
