//! `cargo xtask deny`: licences, bans and sources of what is linked, and advisories where their database can be had.

use std::process::Command;

use xtask::command::{capture, find, run};
use xtask::failure::{Outcome, failure};

use crate::folders::{strict, workspace};

/// What needs nothing but the packages themselves.
const AT_HAND: [&str; 4] = ["check", "licenses", "bans", "sources"];

/// Runs what can be run here, and says by name what cannot.
pub(crate) fn check() -> Outcome {
    if find("cargo-deny").is_none() {
        return failure(
            "cargo-deny is not installed; type `cargo install --locked cargo-deny` (it takes minutes to compile) \
             and start again",
        );
    }
    let hidden = AT_HAND.iter().chain(&["--hide-inclusion-graph"]).copied();
    run(&mut deny(hidden))?;
    if let Err(unreachable) = capture(&mut deny(["fetch", "db"])) {
        let said =
            format!("advisories were not checked; their database cannot be fetched: {unreachable}");
        if strict() {
            return failure(said);
        }
        println!("{said}");
        return Ok(());
    }
    run(&mut deny(["check", "advisories"]))
}

/// By its own name, so that it is the one that was found.
fn deny<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo-deny");
    command.args(arguments).current_dir(workspace());
    command
}
