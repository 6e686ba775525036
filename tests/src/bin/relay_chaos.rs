//! Runs the relay's chaos on the services in the environment: `relay_chaos KILLS FREEZES FAILOVERS RESTORES CLOCK-STEPS MISSING-TOPICS SEED [JSON-FILE]`.

use std::process::ExitCode;

use tests::relay_chaos::{Plan, chaos};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u32> = arguments.iter().map_while(|text| text.parse().ok()).collect();
    let &[kills, freezes, failovers, restores, clock_steps, missing_topics, seed] = &numbers[..]
    else {
        eprintln!(
            "usage: relay_chaos KILLS FREEZES FAILOVERS RESTORES CLOCK-STEPS MISSING-TOPICS SEED \
             [JSON-FILE]"
        );
        return ExitCode::from(2);
    };
    let plan = Plan { kills, freezes, failovers, restores, clock_steps, missing_topics };
    let own = std::env::current_exe().expect("this program has a path");
    let relay = own.with_file_name("relay");
    let report = chaos(&relay, plan, u64::from(seed)).await;
    let json = serde_json::to_string_pretty(&report).unwrap_or_default();
    if let Some(file) = arguments.get(numbers.len())
        && let Err(error) = std::fs::write(file, &json)
    {
        eprintln!("{file} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    println!("{json}");
    if report.violations.is_empty() {
        println!(
            "no violation: nothing lost that the database has, each aggregate in order, copies only around \
             faults"
        );
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", report.violations.join("; "));
    ExitCode::FAILURE
}
