//! Runs the bad deploy on the services in the environment: `deploy EVENTS [JSON-FILE]`.

use std::process::ExitCode;

use tests::deploy::{Size, bad_deploy};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(events) = arguments.first().and_then(|text| text.parse::<i64>().ok()) else {
        eprintln!("usage: deploy EVENTS [JSON-FILE]");
        return ExitCode::from(2);
    };
    let own = std::env::current_exe().expect("this program has a path");
    // The limits that a configuration has by default.
    let size = Size {
        aggregates: (events / 10).max(1),
        per_aggregate: 10,
        partitions: 6,
        aggregates_max: 1_000,
        events_max: 100_000,
    };
    let report = bad_deploy(&own.with_file_name("worker"), size).await;
    let json = serde_json::to_string_pretty(&report).unwrap_or_default();
    println!("{json}");
    if let Some(file) = arguments.get(1)
        && let Err(error) = std::fs::write(file, &json)
    {
        eprintln!("{file} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    if report.violations.is_empty() {
        println!("no violation: each event once, each aggregate in sequence, none missing");
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", report.violations.join("; "));
    ExitCode::FAILURE
}
