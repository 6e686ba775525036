//! Runs the relay's chaos on the services in the environment: `relay_chaos KILLS FREEZES [SEED [JSON-FILE]]`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u32>().ok());
    let (Some(kills), Some(freezes)) = (number(0), number(1)) else {
        eprintln!("usage: relay_chaos KILLS FREEZES [SEED [JSON-FILE]]");
        return ExitCode::from(2);
    };
    let own = std::env::current_exe().expect("this program has a path");
    let relay = own.with_file_name("relay");
    let seed = u64::from(number(2).unwrap_or(1));
    let report = tests::relay_chaos::chaos(&relay, kills, freezes, seed).await;
    let json = serde_json::to_string_pretty(&report).unwrap_or_default();
    if let Some(file) = arguments.get(3)
        && let Err(error) = std::fs::write(file, &json)
    {
        eprintln!("{file} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    println!("{json}");
    if report.violations.is_empty() {
        println!("no violation: nothing lost, each aggregate in order, copies only around faults");
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", report.violations.join("; "));
    ExitCode::FAILURE
}
