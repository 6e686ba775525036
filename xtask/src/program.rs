//! The program `lab` of the package `tests`, on services that are found or started.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use xtask::failure::{Explain, Outcome, failure};

use crate::built::{build, build_tests};
use crate::services::Services;
use crate::toolchain;

/// Runs `lab VERB ARGUMENTS`; the options are the lab's own.
pub(crate) fn run(verb: &str, profile: &str, arguments: &[OsString]) -> Outcome<ExitCode> {
    let mut command = Command::new(lab(profile)?);
    command.arg(verb).args(arguments);
    let doing = || format!("cannot run `lab {verb}`");
    let status = if is_help(arguments) {
        command.status().explain(doing)?
    } else {
        let services = Services::find_or_start()??;
        println!("services: {}", services.line());
        command.envs(services.environment()).status().explain(doing)?
    };
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The program, built with the features that the tests have, so that nothing is built twice.
pub(crate) fn lab(profile: &str) -> Outcome<PathBuf> {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let programs = match profile {
        "dev" => build_tests()?,
        // With the allocator that speed is measured with: bench/Cargo.toml.
        "release" => build(&[
            "build",
            "--release",
            "--workspace",
            "--bin",
            "lab",
            "--features",
            "bench/jemalloc",
        ])?,
        other => build(&["build", "--profile", other, "--workspace", "--bin", "lab"])?,
    };
    let found = programs.into_iter().find(|built| built.name == "lab" && !built.is_test);
    match found {
        Some(built) => Ok(built.program),
        None => failure("the package `tests` has no program `lab`"),
    }
}

/// Whether the lab only lists options, which takes no services.
pub(crate) fn is_help(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--help" || argument == "-h")
}
