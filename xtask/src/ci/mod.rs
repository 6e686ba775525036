//! `cargo xtask test`, `cargo xtask nightly` and `cargo xtask check`: which steps each runs, and what they came to.

mod choice;
mod junit;
mod nightly;
mod programs;
mod steps;
mod test_run;

use std::process::ExitCode;

use xtask::failure::Outcome;

use crate::toolchain;

pub(crate) use choice::Choice;
use choice::Scope;
use steps::{Steps, Tier};
use test_run::TestRun;

/// `cargo xtask test`: the tier of every push, or the tests of a name.
pub(crate) fn push(choice: Choice) -> Outcome<ExitCode> {
    everything(Scope::Push, choice)
}

/// `cargo xtask nightly`: both tiers.
pub(crate) fn nightly() -> Outcome<ExitCode> {
    everything(Scope::Nightly, Choice::default())
}

/// `cargo xtask check`: what needs no service.
pub(crate) fn check() -> Outcome<ExitCode> {
    everything(Scope::Offline, Choice::default())
}

fn everything(scope: Scope, choice: Choice) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let is_named = choice.filter.is_some();
    let mut run = TestRun::new(scope, choice);
    let mut done = Steps::begin()?;
    for step in steps::STEPS {
        let is_chosen = match (is_named, step.tier) {
            (true, _) => step.name == steps::TESTS,
            (false, Tier::Push) => scope != Scope::Offline || !step.needs_services,
            (false, Tier::Nightly(_)) => scope == Scope::Nightly,
        };
        if is_chosen {
            done.step(step, &mut run);
        }
    }
    run.print();
    Ok(done.verdict())
}
