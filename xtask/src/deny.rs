//! `cargo xtask deny`: licences, bans and sources of what is linked, and advisories where their database can be had.

use std::process::Command;

use xtask::command::{capture, run};
use xtask::failure::Outcome;

use crate::folders::workspace;
use crate::tools::DENY;

/// Checks what needs nothing but the packages, then the advisories.
pub(crate) fn check() -> Outcome {
    let program = DENY.find_or_install()?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(workspace());
        command
    };
    run(&mut deny(&["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]))?;
    if let Err(unreachable) = capture(&mut deny(&["fetch", "db"])) {
        println!("advisories were not checked; their database cannot be fetched: {unreachable}");
        return Ok(());
    }
    run(&mut deny(&["check", "advisories"]))
}
