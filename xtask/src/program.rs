//! Programs of the package `tests`, on services that are found or started.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use xtask::failure::{Explain, Failure, Outcome};

use crate::built::build;
use crate::services::Services;
use crate::toolchain;

/// Builds with the features that the tests have, so that nothing is built twice, and runs a program.
pub(crate) fn run(name: &str, arguments: Vec<OsString>) -> Outcome<ExitCode> {
    run_as("dev", name, arguments)
}

/// The same, built with another profile.
pub(crate) fn run_as(profile: &str, name: &str, arguments: Vec<OsString>) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let programs = build(&["build", "--workspace", "--bins", "--profile", profile])?;
    let found = programs.into_iter().find(|built| built.name == name);
    let found =
        found.ok_or_else(|| Failure(format!("the package `tests` has no program `{name}`")))?;
    let services = Services::find_or_start()??;
    println!("services: {}", services.line());
    let mut command = Command::new(found.program);
    let status = command.args(arguments).envs(services.environment()).status();
    let status = status.explain(|| format!("cannot run the program `{name}`"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
