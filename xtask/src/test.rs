//! `cargo xtask test` and `cargo xtask check`: the steps, one after the other, and what came of them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use xtask::command::run;
use xtask::failure::{Explain, Outcome, failure};

use crate::api;
use crate::engine;
use crate::features;
use crate::folders::{self, cargo, strict};
use crate::package;
use crate::services::Services;
use crate::tally::{Printed, Tally};
use crate::toolchain;

/// Tests whose path has this need Kafka or PostgreSQL.
const ON_SERVICES: &str = "services::";

/// Which tests to run.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// Only tests whose path contains this; then format, lints and documentation are left out.
    filter: Option<String>,
    /// Passed on to the test binaries.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// What came of a run of the tests.
#[derive(Debug)]
struct Tested {
    services: String,
    tally: Tally,
    /// Each test that was not run, and why.
    skipped: Vec<String>,
}

/// Everything, on real services.
pub(crate) fn everything(choice: &Choice) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let mut steps = Steps::default();
    if choice.filter.is_none() {
        steps.format_and_lints();
    }
    let mut tested = None;
    steps.step("tests", || {
        let (done, outcome) = on_services(choice)?;
        tested = Some(done);
        outcome
    });
    if choice.filter.is_none() {
        steps.step("engine", engine::guard);
        steps.documentation();
        steps.step("surface", || api::run(false));
        steps.step("packages", package::run_all);
    }
    if let Some(tested) = tested {
        report(&tested);
    }
    Ok(steps.verdict())
}

/// Everything that needs no service.
pub(crate) fn without_services() -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let mut steps = Steps::default();
    steps.format_and_lints();
    steps.step("tests", || {
        let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--"]);
        let (tally, outcome) = count(command.args(["--skip", ON_SERVICES]))?;
        report(&Tested {
            services: "none (`cargo xtask test` runs the tests that need some)".to_owned(),
            tally,
            skipped: Vec::new(),
        });
        outcome
    });
    steps.documentation();
    steps.step("surface", || api::run(false));
    Ok(steps.verdict())
}

/// Runs the tests on the services that can be had. What cannot be had is named.
fn on_services(choice: &Choice) -> Outcome<(Tested, Outcome)> {
    let found = Services::find_or_start()?;
    let mut skips = Skips::new()?;
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--"]);
    command.args(&choice.filter).args(&choice.arguments);
    // Tests of services mostly wait: more of them than processors.
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", "8");
    }
    command.env("INBOX_TEST_SKIPS", &skips.file);
    let services = match &found {
        Ok(services) => {
            println!("services: {}", services.line());
            command.envs(services.environment());
            services.line()
        }
        Err(absent) => {
            println!("without services: {absent}");
            skips.named.push(format!("every test under {ON_SERVICES}*, because {absent}"));
            command.args(["--skip", ON_SERVICES]);
            "none".to_owned()
        }
    };
    let (tally, mut outcome) = count(&mut command)?;
    let skipped = skips.collect();
    if outcome.is_ok() && strict() && !skipped.is_empty() {
        outcome = failure("tests were skipped, which CI=true does not allow");
    }
    Ok((Tested { services, tally, skipped }, outcome))
}

/// Runs a `cargo test`, shows what it prints and counts along.
fn count(command: &mut Command) -> Outcome<(Tally, Outcome)> {
    let doing = || "cannot run `cargo test`".to_owned();
    let mut child = command.stdout(Stdio::piped()).spawn().explain(doing)?;
    let mut tally = Tally::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.explain(doing)?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally.read(&line);
        }
    }
    let status = child.wait().explain(doing)?;
    let outcome = if status.success() {
        Ok(())
    } else {
        failure(format!("`cargo test` ended with {status}"))
    };
    Ok((tally, outcome))
}

/// Tests that find out by themselves that they cannot run here leave a line in a file.
struct Skips {
    file: PathBuf,
    named: Vec<String>,
}

impl Skips {
    fn new() -> Outcome<Self> {
        let file = folders::cache()?.join(format!("skips-{}", std::process::id()));
        fs::write(&file, "").explain(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file, named: Vec::new() })
    }

    fn collect(mut self) -> Vec<String> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        self.named.extend(text.lines().map(str::to_owned));
        drop(fs::remove_file(&self.file));
        self.named
    }
}

fn report(tested: &Tested) {
    let Tested { services, tally, skipped } = tested;
    println!("\nservices  {services}");
    println!(
        "tests     {} ran: {} passed, {} failed; {} skipped",
        tally.passed + tally.failed,
        tally.passed,
        tally.failed,
        skipped.len() as u64 + tally.ignored
    );
    for name in &tally.failures {
        println!("  failed  {name}");
    }
    for line in skipped {
        println!("  skipped {line}");
    }
    for Printed { test, lines } in &tally.printed {
        println!("\n{test} printed at its end:");
        for line in lines {
            println!("  {line}");
        }
    }
}

/// The steps so far. All run, so that one look shows everything that is wrong.
#[derive(Default, Debug)]
struct Steps {
    done: Vec<(&'static str, Duration, Outcome)>,
}

impl Steps {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Outcome) {
        println!("── {name}");
        let start = Instant::now();
        let outcome = work();
        if let Err(failure) = &outcome {
            println!("{name}: {failure}");
        }
        self.done.push((name, start.elapsed(), outcome));
    }

    fn format_and_lints(&mut self) {
        self.step("format", || run(&mut cargo(&["fmt", "--all", "--check"])));
        self.step("lints", || {
            run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
        });
        // What a service builds that needs the libraries alone, and SQLite alone; with an OpenSSL of its own, which
        // nothing else here builds.
        self.step("lints, small", || {
            let libraries = ["--package", "inbox-consumer", "--package", "inbox-outbox-relay"];
            let mut clippy =
                cargo(&["clippy", "--no-default-features", "--features", "sqlite,tls-vendored"]);
            run(clippy.args(libraries).args(["--", "-D", "warnings"]))
        });
        self.step("lints, alone", features::each_alone);
    }

    fn documentation(&mut self) {
        self.step("documentation", || {
            let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
            run(command.env("RUSTDOCFLAGS", "-D warnings"))
        });
    }

    /// Prints how each step went; success if all did.
    fn verdict(self) -> ExitCode {
        println!();
        for (name, took, outcome) in &self.done {
            let word = if outcome.is_ok() { "ok" } else { "FAILED" };
            println!("{name:<14} {word:<7} {:>4} s", took.as_secs());
        }
        let good = self.done.iter().all(|(.., outcome)| outcome.is_ok());
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
