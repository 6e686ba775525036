//! `cargo xtask engine`: what the engine alone costs, by the clock and in instructions, and what an event costs in
//! instructions by each kind of handler.
//!
//! Instructions are counted by valgrind's callgrind: unlike a time they are the same on a busy machine, so
//! the tests guard them.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::command::{capture, find};
use xtask::failure::{Outcome, failure};

use crate::built::build;
use crate::folders::{cache, strict};
use crate::{lint, program};

/// Something whose instructions are counted.
struct Counted {
    /// Its name in messages.
    name: &'static str,
    program: fn() -> Outcome<PathBuf>,
    /// Its arguments but for the last, which is how many it settles.
    arguments: &'static [&'static str],
    /// Of the two counted runs: their difference is free of what starting costs.
    settled: [u64; 2],
    /// The functions of which instructions are counted with all that they call, or none for the whole program.
    within: &'static [&'static str],
    /// What one delivery costs.
    instructions: u64,
    /// How far from it a count may be, in parts of a thousand.
    tolerance: u64,
}

/// The numbers are of the profile `dev` built with lints, by Rust 1.95, on x86-64 with AVX2. They change in commits that
/// say why.
const COUNTED: [Counted; 5] = [
    Counted {
        name: "the engine",
        program: engine,
        arguments: &[],
        settled: [40_000, 120_000],
        within: &[],
        instructions: 750,
        tolerance: TOLERANCE_OPTIMISED,
    },
    handler("handler", &["settle", "handler"], 103_300, TOLERANCE_AWAITED),
    handler("queued", &["settle", "queued"], 100_600, TOLERANCE_AWAITED),
    handler("batch", &["settle", "batch"], 93_000, TOLERANCE),
    handler("sql-run", &["settle", "sql-run"], 119_900, TOLERANCE),
];
/// Runs of one build differ by four parts of a thousand at most.
const TOLERANCE: u64 = 30;
/// What is optimised is laid out and inlined by names that hold the folder and how cargo was called: 696 in one build and
/// 748 in another of the same source.
const TOLERANCE_OPTIMISED: u64 = 150;
/// Where SQLite's thread is waited for after each event, how often a future is polled depends on how busy the machine
/// is: runs of one build differed by 33.
const TOLERANCE_AWAITED: u64 = 100;
/// Deliveries of a timed run, and how many there are.
const TIMED: u64 = 8_000_000;
const ROUNDS: usize = 5;

/// What a consumer does for an event: reads it, cuts its transaction and sees to its outcome, and runs the transaction.
/// SQLite has a thread of its own, and what tokio does between two polls depends on how quickly that answers.
const WITHIN: [&str; 3] = [
    "*::Driver<DB>::handle_event",
    "*::Driver<DB>::handle_task_result",
    "*::transact::{{closure}}",
];

/// A kind of handler, on SQLite.
const fn handler(
    name: &'static str,
    arguments: &'static [&'static str],
    instructions: u64,
    tolerance: u64,
) -> Counted {
    let settled = [500, 2_000];
    Counted { name, program: lab, arguments, settled, within: &WITHIN, instructions, tolerance }
}

/// All of it, for people.
pub(crate) fn measure() -> Outcome {
    let program = engine()?;
    for _ in 0..ROUNDS {
        let said = capture(Command::new(&program).arg(TIMED.to_string()))?;
        println!("{}", said.trim_end().replace('\n', ", "));
    }
    guard()
}

/// Fails when a delivery costs more or fewer instructions than is written down.
pub(crate) fn guard() -> Outcome {
    if find("valgrind").is_none() {
        let absent = "valgrind is not there: install Debian's package valgrind";
        println!("instructions were not counted: {absent}");
        return if strict() { failure(absent) } else { Ok(()) };
    }
    let comparable = cfg!(target_arch = "x86_64") && lint::driver()?.is_some();
    let mut wrong = Vec::new();
    for counted in &COUNTED {
        let each = counted.each()?;
        let Counted { name, instructions, tolerance, .. } = *counted;
        println!("{name}: {each} instructions per delivery; {instructions} are written down");
        wrong.extend(verdict(name, each, instructions, tolerance).filter(|_| comparable));
    }
    if !comparable {
        println!("they are not compared: what is written down is of x86-64, built with lints");
    }
    if wrong.is_empty() { Ok(()) } else { failure(wrong.join("\n")) }
}

/// What is wrong with a count.
fn verdict(name: &str, each: u64, written: u64, tolerance: u64) -> Option<String> {
    if each.abs_diff(written) * 1_000 <= written * tolerance {
        return None;
    }
    let (than, todo) = if each > written {
        ("more", "find out what was added, and take it out or")
    } else {
        ("less", "so that it is noticed when that is lost again,")
    };
    Some(format!(
        "{name}: a delivery costs {each} instructions, which is {than} than the {written} that are written down: {todo} \
         change the number in xtask/src/engine.rs in a commit that says why (another compiler can be the reason)"
    ))
}

impl Counted {
    /// What one delivery costs.
    fn each(&self) -> Outcome<u64> {
        let program = (self.program)()?;
        let [few, many] = self.settled;
        let more = self.count(&program, many)?.saturating_sub(self.count(&program, few)?);
        Ok(more / (many - few))
    }

    /// The instructions of one run.
    fn count(&self, program: &Path, settled: u64) -> Outcome<u64> {
        let file = cache()?.join(format!("callgrind-{}", std::process::id()));
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", file.display()));
        valgrind.args(self.within.iter().map(|function| format!("--toggle-collect={function}")));
        valgrind.arg(program).args(self.arguments).arg(settled.to_string());
        let said = capture(&mut valgrind)?;
        // What it counted is in its last lines as well; the file is for those who look into it.
        drop(std::fs::remove_file(&file));
        let counted = said.lines().find_map(|line| line.split_once("Collected :"));
        match counted.and_then(|(_, number)| number.trim().parse().ok()) {
            Some(number) => Ok(number),
            None => failure(format!("valgrind did not say what it counted:\n{said}")),
        }
    }
}

fn engine() -> Outcome<PathBuf> {
    let built = build(&["build", "--package", "inbox-engine", "--example", "settle"])?;
    match built.into_iter().find(|built| built.name == "settle") {
        Some(built) => Ok(built.program),
        None => failure("cargo built no program `settle` of inbox-engine"),
    }
}

fn lab() -> Outcome<PathBuf> {
    program::lab("dev")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_wrong_when_it_is_further_away_than_the_tolerance() {
        for near in [970, 1_000, 1_030] {
            assert_eq!(verdict("batch", near, 1_000, TOLERANCE), None);
        }
        let [less, more] = [969, 1_031].map(|far| verdict("batch", far, 1_000, TOLERANCE).unwrap());
        assert!(less.contains("969 instructions, which is less than the 1000"), "{less}");
        assert!(more.contains("find out what was added"), "{more}");
        assert!(verdict("batch", 0, 1_000, TOLERANCE).is_some(), "nothing was counted");
    }
}
