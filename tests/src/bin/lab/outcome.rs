//! How a run ends: its report as JSON, its violations, its exit code.

use std::{fs, path::Path, process::ExitCode};

use serde::Serialize;

/// Prints and saves a report. The run fails on violations; without any, `checked` says what holds.
pub(crate) fn conclude(
    report: &impl Serialize,
    violations: &[String],
    file: Option<&Path>,
    checked: &str,
) -> ExitCode {
    println!("{}", json(report));
    if save(report, file) { judge(violations, checked) } else { ExitCode::FAILURE }
}

/// Writes a report to a file, if there is one; false, after saying why, if it cannot be written.
pub(crate) fn save(report: &impl Serialize, file: Option<&Path>) -> bool {
    let Some(file) = file else { return true };
    let written = fs::write(file, json(report) + "\n");
    if let Err(error) = &written {
        eprintln!("cannot write {}: {error}", file.display());
    }
    written.is_ok()
}

/// Prints violations, or that there are none.
pub(crate) fn judge(violations: &[String], checked: &str) -> ExitCode {
    if violations.is_empty() {
        println!("no violation: {checked}");
        return ExitCode::SUCCESS;
    }
    println!("VIOLATED: {}", violations.join("\n          "));
    ExitCode::FAILURE
}

fn json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default()
}
