//! Building the tests, with lints, and running them by nextest on real services.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::command::run;
use xtask::failure::{Explain, Failure, Outcome, failure};

use crate::built::TARGETS;
use crate::folders::{self, cargo, strict};
use crate::lint;
use crate::services::Services;
use crate::tools::NEXTEST;

use super::choice::{Choice, Scope};
use super::junit::{End, Report, Tested};
use super::nightly::{self, Tiers};

/// Tests whose path has this need Kafka or PostgreSQL.
const ON_SERVICES: &str = "services::";

/// More flaky tests than this fail a run.
const FLAKY_MAX: usize = 3;

/// How many of the slowest tests are printed.
const SLOWEST: usize = 30;

/// A run of the tests: what is asked for, and what came of it.
pub(super) struct TestRun {
    scope: Scope,
    choice: Choice,
    /// Where the services are, in one line.
    services: String,
    tiers: Option<Tiers>,
    report: Option<Report>,
    /// Tests of examples in the documentation, as each test program summed them up.
    doc_tests: Vec<String>,
    /// Each test that was not run, and why.
    skipped: Vec<String>,
}

impl TestRun {
    pub(super) fn new(scope: Scope, choice: Choice) -> Self {
        Self {
            scope,
            choice,
            services: "none (`cargo xtask test` runs the tests that need some)".to_owned(),
            tiers: None,
            report: None,
            doc_tests: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Prints what came of it: what failed or was flaky comes last, where a long log is not cut.
    pub(super) fn print(&self) {
        let Some(report) = &self.report else { return };
        println!("\nthe {SLOWEST} slowest tests:");
        for test in report.slowest(SLOWEST) {
            println!("{:>8.1} s  {}", test.seconds, test.name);
        }
        for Tested { name, end, .. } in &report.tests {
            let (word, lines) = match end {
                End::Passed => continue,
                End::Flaky(lines) => ("FLAKY", lines),
                End::Failed(lines) => ("FAILED", lines),
            };
            println!("\n{word} {name}; its first run printed at its end:");
            for line in lines {
                println!("  {line}");
            }
        }
        println!("\nservices  {}", self.services);
        if let Some(Tiers { push, nightly }) = self.tiers {
            println!("tiers     {push} tests for every push, {nightly} more nightly");
        }
        let count = |is_counted| report.count(is_counted);
        println!(
            "tests     {} ran: {} passed, {} of them flaky; {} failed; {} skipped",
            report.tests.len(),
            count(|end| !matches!(end, End::Failed(_))),
            count(|end| matches!(end, End::Flaky(_))),
            count(|end| matches!(end, End::Failed(_))),
            self.skipped.len(),
        );
        for line in &self.skipped {
            println!("  skipped {line}");
        }
        for line in &self.doc_tests {
            println!("doc tests {line}");
        }
    }
}

/// Builds every test and program of the workspace, and lints what is compiled.
pub(super) fn build() -> Outcome {
    let mut command = cargo(&["test", "--no-run", "--quiet"]);
    command.args(TARGETS);
    lint::while_building(&mut command)?;
    run(&mut command)
}

/// Runs the chosen tests on the services that can be had. What cannot be had is named.
pub(super) fn run_tests(run: &mut TestRun) -> Outcome {
    let found = match run.scope {
        Scope::Offline => None,
        Scope::Push | Scope::Nightly => Some(Services::find_or_start()?),
    };
    let skips = Skips::new()?;
    let services = match &found {
        Some(Ok(services)) => {
            run.services = services.line();
            services.environment()
        }
        Some(Err(absent)) => {
            "none".clone_into(&mut run.services);
            run.skipped.push(format!("every test under {ON_SERVICES}*, because {absent}"));
            Vec::new()
        }
        None => Vec::new(),
    };
    println!("services: {}", run.services);
    let are_there = !services.is_empty();
    let with_services = |command: &mut Command| {
        command.envs(services.iter().map(|(name, value)| (*name, value)));
        command.env("INBOX_TEST_SKIPS", &skips.file);
    };
    let outcome = match NEXTEST.find_or_install() {
        Ok(nextest) => by_nextest(run, &nextest, are_there, with_services),
        Err(Failure(why)) if strict() => failure(why),
        Err(Failure(why)) => {
            println!("cargo-nextest cannot be had, so `cargo test` runs the tests: {why}");
            by_cargo(run, are_there, with_services)
        }
    };
    run.skipped.extend(skips.collect());
    outcome?;
    if strict() && !run.skipped.is_empty() {
        return failure("tests were skipped, which CI=true does not allow");
    }
    Ok(())
}

fn by_nextest(
    run: &mut TestRun,
    nextest: &Path,
    on_services: bool,
    with_services: impl Fn(&mut Command),
) -> Outcome {
    let lines = nightly::table()?;
    run.tiers = Some(nightly::divide(&lines, &list(nextest)?)?);
    let mut command = nextest_command(nextest, &["run", "--no-fail-fast"])?;
    let mut filters = Vec::new();
    match (&run.choice.filter, run.scope) {
        (Some(name), _) => filters.push(format!("test({name})")),
        (None, Scope::Push | Scope::Offline) => filters.push(nightly::push_filter(&lines)),
        (None, Scope::Nightly) => {}
    }
    if !on_services {
        filters.push(format!("not test({ON_SERVICES})"));
    }
    if !filters.is_empty() {
        command.arg("--filterset").arg(filters.join(" and "));
    }
    for argument in &run.choice.arguments {
        command.arg(if argument == "--nocapture" { "--no-capture" } else { argument });
    }
    with_services(&mut command);
    let file = junit_file()?;
    drop(fs::remove_file(&file));
    let outcome = xtask::command::run(&mut command);
    if file.is_file() {
        println!("JUnit: {}", file.display());
        let report = run.report.insert(Report::read(&file)?);
        return outcome.and_then(|()| accept_flaky(report));
    }
    outcome
}

/// Fails where more tests are flaky than a service's bad moment explains.
fn accept_flaky(report: &Report) -> Outcome {
    let flaky = report.count(|end| matches!(end, End::Flaky(_)));
    if flaky > FLAKY_MAX {
        return failure(format!("{flaky} tests were flaky, and {FLAKY_MAX} are accepted"));
    }
    Ok(())
}

/// The paths of all tests.
fn list(nextest: &Path) -> Outcome<Vec<String>> {
    let doing = || "cannot list the tests".to_owned();
    let mut command = nextest_command(nextest, &["list", "--message-format", "json"])?;
    let output = command.stderr(std::process::Stdio::inherit()).output().explain(doing)?;
    let listed: Value = serde_json::from_slice(&output.stdout).explain(doing)?;
    let suites = listed["rust-suites"].as_object().into_iter().flatten();
    let cases = suites.filter_map(|(_, suite)| suite["testcases"].as_object());
    Ok(cases.flatten().map(|(name, _)| name.clone()).collect())
}

fn nextest_command(nextest: &Path, arguments: &[&str]) -> Outcome<Command> {
    let mut command = Command::new(nextest);
    command.arg("nextest").args(arguments).args(TARGETS).arg("--cargo-quiet");
    command.current_dir(folders::workspace());
    folders::forget_package(&mut command);
    lint::while_building(&mut command)?;
    Ok(command)
}

fn junit_file() -> Outcome<PathBuf> {
    Ok(folders::cache()?.with_file_name("nextest").join("default/junit.xml"))
}

/// Without nextest: no retries, no time limits, no report.
fn by_cargo(run: &TestRun, on_services: bool, with_services: impl Fn(&mut Command)) -> Outcome {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(TARGETS);
    lint::while_building(&mut command)?;
    command.arg("--").args(&run.choice.filter).args(&run.choice.arguments);
    if run.choice.filter.is_none() && run.scope != Scope::Nightly {
        for line in nightly::table()? {
            command.args(["--skip", &line.pattern]);
        }
    }
    if !on_services {
        command.args(["--skip", ON_SERVICES]);
    }
    with_services(&mut command);
    xtask::command::run(&mut command)
}

/// Examples in the documentation, which nextest does not run.
pub(super) fn run_doc_tests(run: &mut TestRun) -> Outcome {
    let mut command = cargo(&["test", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
    lint::while_building(&mut command)?;
    let printed = xtask::command::capture(&mut command);
    let text = match &printed {
        Ok(text) | Err(Failure(text)) => text,
    };
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: "));
    let results = results.filter(|line| !line.starts_with("ok. 0 passed"));
    run.doc_tests = results.map(str::to_owned).collect();
    printed.map(drop)
}

/// Tests that find out by themselves that they cannot run here leave a line in a file.
struct Skips {
    file: PathBuf,
}

impl Skips {
    fn new() -> Outcome<Self> {
        let file = folders::cache()?.join(format!("skips-{}", std::process::id()));
        fs::write(&file, "").explain(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file })
    }

    fn collect(self) -> Vec<String> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        drop(fs::remove_file(&self.file));
        text.lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_three_flaky_tests_fail_a_run() {
        let flaky = || Tested { name: String::new(), seconds: 0.0, end: End::Flaky(Vec::new()) };
        let run = |count| Report { tests: (0..count).map(|_| flaky()).collect() };
        assert!(accept_flaky(&run(FLAKY_MAX)).is_ok());
        assert!(accept_flaky(&run(FLAKY_MAX + 1)).is_err());
    }
}
