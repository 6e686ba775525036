//! Clippy as the compiler of this workspace, so that one build lints the code and makes the programs.
//!
//! `cargo clippy` does the same for a build that ends before code is made: it names clippy's driver as the wrapper of the
//! compiler for members of the workspace. The driver is the compiler with more lints, and what it makes runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::command::capture;
use xtask::failure::{Outcome, failure};

use crate::folders::strict;

/// `-D warnings`, as `cargo clippy` hands arguments to its driver.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Lets a command of cargo lint what it compiles; a warning is an error. Without clippy it only compiles, which
/// `CI=true` does not allow.
pub(crate) fn while_building(command: &mut Command) -> Outcome {
    match driver()? {
        Some(driver) => {
            command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", DENY_WARNINGS);
        }
        None if strict() => {
            return failure("clippy is not installed; type `rustup component add clippy`");
        }
        None => println!(
            "clippy is not installed, so nothing is linted; type `rustup component add clippy`"
        ),
    }
    Ok(())
}

/// Clippy's driver of the toolchain that compiles.
pub(crate) fn driver() -> Outcome<Option<PathBuf>> {
    let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    Ok(driver.is_file().then_some(driver))
}
