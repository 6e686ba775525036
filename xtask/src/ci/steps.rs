//! The steps of a run, the tier of each, and the table that a run ends with.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use xtask::command::run;
use xtask::failure::Outcome;

use crate::folders::{cache, cargo};
use crate::{api, dist, engine, features, lint, manifests, package, site};

use super::programs::run_short;
use super::test_run::{TestRun, build, run_doc_tests, run_tests};

/// When a step is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// For every push.
    Push,
    /// By `cargo xtask nightly` alone, for this reason.
    Nightly(&'static str),
}

/// One step.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) tier: Tier,
    pub(super) needs_services: bool,
    work: fn(&mut TestRun) -> Outcome,
}

impl Step {
    const fn push(name: &'static str, work: fn(&mut TestRun) -> Outcome) -> Self {
        Self { name, tier: Tier::Push, needs_services: false, work }
    }

    const fn nightly(
        name: &'static str,
        reason: &'static str,
        work: fn(&mut TestRun) -> Outcome,
    ) -> Self {
        Self { name, tier: Tier::Nightly(reason), needs_services: false, work }
    }
}

/// The step that runs the tests.
pub(super) const TESTS: &str = "tests";

/// All steps, in the order in which they are run: what fails fast comes first.
pub(super) const STEPS: &[Step] = &[
    Step::push("format", |_| run(&mut cargo(&["fmt", "--all", "--check"]))),
    Step::push("build, lints", |_| build()),
    Step::push(TESTS, run_tests),
    Step::push("doc tests", run_doc_tests),
    Step::push("feature lists", |_| features::check_lists()),
    Step::push("documentation", |_| documentation()),
    Step::push("public items", |_| api::run(false)),
    Step::push("package contents", |_| package::check_contents()),
    Step::push("instructions", |_| engine::guard()),
    Step::nightly(
        "each feature",
        "A feature that nobody uses alone fails rarely, and all of them take many minutes.",
        |_| features::check_each(),
    ),
    Step::nightly(
        "vendored TLS",
        "It compiles OpenSSL and another librdkafka from source.",
        |_| features::check_vendored(),
    ),
    Step::nightly(
        "private documentation",
        "A broken link in a comment hurts nobody before the next day.",
        |_| private_documentation(),
    ),
    Step::nightly("packages", "It compiles every crate once more, out of its package.", |_| {
        package::compile()
    }),
    Step::nightly(
        "dependencies",
        "It depends on Cargo.lock and on advisories rather than on the code.",
        |_| crate::deny::check(),
    ),
    Step::nightly("image", "It builds both programs with the release profile.", |_| {
        dist::build(dist::Choice::default())
    }),
    Step::nightly(
        "manifests",
        "It needs Go and downloads the types of Kubernetes; a test reads them for every push.",
        |_| manifests::check(),
    ),
    Step::nightly(
        "site",
        "It needs mdBook; a test finds dead links between documents for every push.",
        |_| site::build(),
    ),
    Step::nightly(
        "examples",
        "The lessons run as parts of one program for every push; this links each as a reader does.",
        |_| build_examples(),
    ),
    Step::nightly(
        "programs",
        "Chaos, drills and a live Debezium take many minutes; short forms of the promises are tests.",
        |_| run_short(),
    ),
];

/// The documentation that users read, without a broken link.
fn documentation() -> Outcome {
    document(&[], "-D warnings")
}

/// The same with everything that is not public. A public item may name a private one there.
fn private_documentation() -> Outcome {
    document(&["--document-private-items"], "-D warnings -A rustdoc::private_intra_doc_links")
}

fn document(more: &[&str], flags: &str) -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
    run(command.args(more).env("RUSTDOCFLAGS", flags))
}

fn build_examples() -> Outcome {
    let mut command = cargo(&["test", "--quiet", "--no-run", "--workspace", "--examples"]);
    lint::while_building(&mut command)?;
    run(&mut command)
}

/// What the steps of a run came to.
pub(super) struct Steps {
    began: Instant,
    is_warm: bool,
    done: Vec<(&'static str, Duration, Outcome)>,
}

impl Steps {
    pub(super) fn begin() -> Outcome<Self> {
        Ok(Self { began: Instant::now(), is_warm: is_warm()?, done: Vec::new() })
    }

    /// Runs a step. One that fails does not keep the others from running, so that one run shows all that is wrong.
    pub(super) fn step(&mut self, step: &Step, test_run: &mut TestRun) {
        println!("── {}", step.name);
        let start = Instant::now();
        let outcome = (step.work)(test_run);
        if let Err(failure) = &outcome {
            println!("{}: {failure}", step.name);
        }
        self.done.push((step.name, start.elapsed(), outcome));
    }

    /// Prints how each step went; success if all did.
    pub(super) fn verdict(self) -> ExitCode {
        println!();
        for (name, took, outcome) in &self.done {
            let word = if outcome.is_ok() { "ok" } else { "FAILED" };
            println!("{name:<22} {word:<7} {:>5} s", took.as_secs());
        }
        let state = if self.is_warm { "warm" } else { "cold" };
        println!("{:<22} {state:<7} {:>5} s", "in all", self.began.elapsed().as_secs());
        let good = self.done.iter().all(|(.., outcome)| outcome.is_ok());
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Whether the tests were built before in this build folder.
fn is_warm() -> Outcome<bool> {
    let folder = cache()?.with_file_name("debug").join(".fingerprint");
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    Ok(entries.any(|entry| entry.file_name().to_string_lossy().starts_with("tests-")))
}
