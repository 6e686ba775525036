//! `cargo xtask api`: what users can name of the published crates, beside the lists of it that are committed.
//!
//! The package `api` does it: it takes more crates than this program may need to start.

use xtask::command::run as run_command;
use xtask::failure::Outcome;

use crate::folders::cargo;
use crate::toolchain;

/// Compares, or writes the lists anew.
pub(crate) fn run(accept: bool) -> Outcome {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let mut command = cargo(&["run", "--quiet", "--package", "api"]);
    if accept {
        command.args(["--", "--accept"]);
    }
    run_command(&mut command)
}
