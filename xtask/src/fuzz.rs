//! `cargo xtask fuzz`: what reads bytes gets inputs that libFuzzer makes up, from the corpus in `fuzz/corpus` on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use xtask::command::{capture, find};
use xtask::failure::{Explain, Outcome, failure};

use crate::folders::workspace;

/// All of them, as `fuzz/Cargo.toml` has them.
const TARGETS: [&str; 9] = [
    "configuration",
    "debezium",
    "declared_values",
    "header_json",
    "intake",
    "lexer",
    "pointers",
    "reader",
    "schemas",
];
/// The longest input, and the most memory that a target may take.
const BYTES_MAX: usize = 4096;
const MEGABYTES_MAX: usize = 2048;

/// What to run, and for how long.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// Minutes for each target, which takes one processor.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// The targets; all, if none is named.
    #[arg(value_name = "TARGET", value_parser = TARGETS)]
    targets: Vec<String>,
}

/// Runs the targets one after the other, and says what came of each.
pub(crate) fn run(choice: &Choice) -> Outcome<ExitCode> {
    installed()?;
    let named = |target: &&str| choice.targets.iter().any(|named| named == target);
    let mut ends = Vec::new();
    for target in TARGETS.into_iter().filter(|one| choice.targets.is_empty() || named(one)) {
        println!("{target}: {} min", choice.minutes);
        ends.push((target, play(target, choice.minutes)?));
    }
    println!("| target | runs | coverage edges | corpus files | panics |\n|---|---|---|---|---|");
    for (target, End { runs, edges, files, findings }) in &ends {
        println!("| `{target}` | {runs} | {edges} | {files} | {} |", findings.len());
    }
    let findings: Vec<&String> = ends.iter().flat_map(|(_, end)| &end.findings).collect();
    for finding in &findings {
        println!("{finding}");
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says what to install where something is missing: nothing of it is needed for anything else.
fn installed() -> Outcome {
    if capture(Command::new("rustup").args(["run", "nightly", "cargo", "--version"])).is_err() {
        return failure(
            "there is no nightly compiler, which coverage needs; type `rustup toolchain install --profile minimal \
             nightly` and start again",
        );
    }
    if find("cargo-fuzz").is_none() {
        return failure(
            "cargo-fuzz is not installed; type `cargo install --locked cargo-fuzz` and start again",
        );
    }
    Ok(())
}

/// What a run came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct End {
    runs: u64,
    edges: u64,
    files: u64,
    /// Lines that name the inputs that failed.
    findings: Vec<String>,
}

fn play(target: &str, minutes: u64) -> Outcome<End> {
    let folder = workspace().join("fuzz");
    // What is new goes there, so that the tree stays as it is.
    let new = folder.join("target/corpus").join(target);
    fs::create_dir_all(&new).explain(|| format!("cannot create {}", new.display()))?;
    let log = folder.join("target").join(format!("{target}.log"));
    let written = File::create(&log).explain(|| format!("cannot write {}", log.display()))?;
    let status = fuzzer(target, &new, &folder, minutes).stderr(written).status();
    let status = status.explain(|| "cannot run cargo-fuzz".to_owned())?;
    let said = fs::read(&log).explain(|| format!("cannot read {}", log.display()))?;
    let end = end(&String::from_utf8_lossy(&said));
    if status.success() || !end.findings.is_empty() {
        return Ok(end);
    }
    failure(format!("`{target}` did not run to its end; see {}", log.display()))
}

/// Without a sanitizer: `unsafe` is in no code that the targets reach, and they are faster so.
fn fuzzer(target: &str, new: &Path, folder: &Path, minutes: u64) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz", "run", "--sanitizer", "none", target]);
    let kept: PathBuf = folder.join("corpus").join(target);
    command.args([new, &kept]).arg("--");
    command.arg(format!("-max_total_time={}", minutes * 60));
    let dictionary = folder.join("dictionaries").join(format!("{target}.dict"));
    command.arg(format!("-dict={}", dictionary.display()));
    command.arg(format!("-max_len={BYTES_MAX}")).arg(format!("-rss_limit_mb={MEGABYTES_MAX}"));
    command.current_dir(workspace());
    command
}

/// Reads what libFuzzer said: `#7 DONE cov: 5 ft: 9 corp: 3/40b lim: …`.
fn end(said: &str) -> End {
    let mut end = End::default();
    for line in said.lines() {
        if line.contains("Test unit written to ") {
            end.findings.push(line.to_owned());
        }
        let Some(runs) = line.strip_prefix('#') else { continue };
        let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
        let behind = |word: &str| line.split_once(word).and_then(|(_, rest)| digits(rest));
        if let (Some(runs), Some(edges), Some(files)) =
            (digits(runs), behind(" cov: "), behind(" corp: "))
        {
            (end.runs, end.edges, end.files) = (runs, edges, files);
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_a_dictionary_and_inputs_to_begin_with() {
        let folder = workspace().join("fuzz");
        for target in TARGETS {
            let dictionary = folder.join("dictionaries").join(format!("{target}.dict"));
            assert!(dictionary.is_file(), "there is no {}", dictionary.display());
            let inputs = folder.join("corpus").join(target);
            assert!(fs::read_dir(&inputs).unwrap().count() > 0, "{} is empty", inputs.display());
        }
    }

    #[test]
    fn the_last_line_of_figures_counts_and_findings_are_told() {
        let said = "INFO: Seed: 1\n#2\tINITED cov: 5 ft: 6 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #4096\tpulse  cov: 812 ft: 2 corp: 77/9Kb lim: 40 exec/s: 2048 rss: 31Mb\n\
                    artifact_prefix='a/'; Test unit written to a/crash-1\n";
        let findings = vec!["artifact_prefix='a/'; Test unit written to a/crash-1".to_owned()];
        assert_eq!(end(said), End { runs: 4096, edges: 812, files: 77, findings });
    }

    #[test]
    fn the_targets_are_those_of_the_package() {
        let manifest = fs::read_to_string(workspace().join("fuzz/Cargo.toml")).unwrap();
        for target in TARGETS {
            assert!(manifest.contains(&format!("path = \"targets/{target}.rs\"")), "{target}");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    }
}
