//! Plays faults on the services in the environment, and prints how long each took to be named:
//! `drill KILLS CASES [JSON-FILE]`, cases with commas between them, or `all`.

use std::process::ExitCode;

use tests::drill::{CASES, Plan, play};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kills, cases, file @ ..] = &arguments[..] else { return usage() };
    let Ok(kills) = kills.parse() else { return usage() };
    let cases: Vec<String> = match cases.as_str() {
        "all" => CASES.iter().map(|case| (*case).to_owned()).collect(),
        some => some.split(',').map(str::to_owned).collect(),
    };
    if let Some(unknown) = cases.iter().find(|case| !CASES.contains(&case.as_str())) {
        eprintln!("there is no case `{unknown}`; there are {}", CASES.join(", "));
        return ExitCode::from(2);
    }
    let worker = std::env::current_exe().expect("this program has a path").with_file_name("worker");
    let report = play(&worker, &Plan { kills, cases }).await;
    if let Some(file) = file.first() {
        let json = serde_json::to_string_pretty(&report).unwrap_or_default();
        if let Err(error) = std::fs::write(file, json) {
            eprintln!("{file} could not be written: {error}");
            return ExitCode::FAILURE;
        }
    }
    println!("\n{}", report.table());
    let faults = report.faults();
    if faults.is_empty() {
        println!("no violation: everything had its name in time, no effect is lost or doubled");
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", faults.join("\n          "));
    ExitCode::FAILURE
}

fn usage() -> ExitCode {
    eprintln!("usage: drill KILLS all|CASE[,CASE…] [JSON-FILE]");
    ExitCode::from(2)
}
