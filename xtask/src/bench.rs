//! `cargo xtask bench`: exactly-once effects per second, beside loops and limits written by hand.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use xtask::failure::{Explain, Failure, Outcome};

use crate::built::build;
use crate::services::Services;
use crate::toolchain;

/// Builds for speed, finds or starts the services, and measures; the options are the bench's own.
pub(crate) fn run(arguments: &[OsString]) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    let programs = build(&["build", "--release", "--package", "bench", "--features", "jemalloc"])?;
    let found = programs.into_iter().find(|built| built.name == "bench");
    let bench = found.ok_or_else(|| Failure("the package `bench` has no program".to_owned()))?;
    let services = Services::find_or_start()??;
    println!("services: {}", services.line());
    let mut command = Command::new(bench.program);
    let status = command.args(arguments).envs(services.environment()).status();
    let status = status.explain(|| "cannot run the bench".to_owned())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
