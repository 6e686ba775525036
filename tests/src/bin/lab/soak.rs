//! Runs the soak on the services in the environment: `soak EVENTS [SEED [JSON-FILE]]`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let Some(events) = number(0) else {
        eprintln!("usage: soak EVENTS [SEED [JSON-FILE]]");
        return ExitCode::from(2);
    };
    let report = tests::soak::run::soak(events, number(1).unwrap_or(1)).await;
    let json = serde_json::to_string_pretty(&report).unwrap_or_default();
    if let Some(file) = arguments.get(2)
        && let Err(error) = std::fs::write(file, &json)
    {
        eprintln!("{file} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    println!("{json}");
    if report.violations.is_empty() {
        println!("no violation: each event once, each aggregate in sequence, none missing");
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", report.violations.join("; "));
    ExitCode::FAILURE
}
