//! `cargo xtask engine`: what the engine alone costs, by the clock and in instructions.
//!
//! Instructions are counted by valgrind's callgrind: unlike a time they are the same on a busy machine, so
//! the tests guard them.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::command::{capture, find};
use xtask::failure::{Outcome, failure};

use crate::built::build;
use crate::folders::{cache, strict};

/// What a delivery may cost, in instructions of the profile `dev`; measured: 762 (x86-64, Rust 1.95, built with lints).
const INSTRUCTIONS_MAX: u64 = 900;
/// Deliveries of the two counted runs: their difference is free of what starting costs.
const COUNTED: [u64; 2] = [40_000, 120_000];
/// Deliveries of a timed run, and how many there are.
const TIMED: u64 = 8_000_000;
const ROUNDS: usize = 5;

/// Both, for people.
pub(crate) fn measure() -> Outcome {
    let program = program()?;
    for _ in 0..ROUNDS {
        let said = capture(Command::new(&program).arg(TIMED.to_string()))?;
        println!("{}", said.trim_end().replace('\n', ", "));
    }
    guard()
}

/// Fails when a delivery costs more instructions than it may.
pub(crate) fn guard() -> Outcome {
    if find("valgrind").is_none() {
        let absent = "valgrind is not there: install Debian's package valgrind";
        println!("instructions were not counted: {absent}");
        return if strict() { failure(absent) } else { Ok(()) };
    }
    let program = program()?;
    let [few, many] = COUNTED;
    let more = instructions(&program, many)?.saturating_sub(instructions(&program, few)?);
    let each = more / (many - few);
    println!("the engine: {each} instructions per delivery; {INSTRUCTIONS_MAX} are allowed");
    if each == 0 || each > INSTRUCTIONS_MAX {
        return failure(format!(
            "a delivery costs the engine {each} instructions; find out what was added, or raise the bound in \
             xtask/src/engine.rs with a reason"
        ));
    }
    Ok(())
}

fn program() -> Outcome<PathBuf> {
    let built = build(&["build", "--package", "inbox-engine", "--example", "settle"])?;
    match built.into_iter().find(|built| built.name == "settle") {
        Some(built) => Ok(built.program),
        None => failure("cargo built no program `settle` of inbox-engine"),
    }
}

fn instructions(program: &Path, deliveries: u64) -> Outcome<u64> {
    let file = cache()?.join(format!("callgrind-{}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", file.display()));
    let said = capture(valgrind.arg(program).arg(deliveries.to_string()))?;
    // What it counted is in its last lines as well; the file is for those who look into it.
    drop(std::fs::remove_file(&file));
    let counted = said.lines().find_map(|line| line.split_once("Collected :"));
    match counted.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(number) => Ok(number),
        None => failure(format!("valgrind did not say what it counted:\n{said}")),
    }
}
