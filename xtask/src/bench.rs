//! `cargo xtask bench`: exactly-once effects per second, and rows that a relay ships, beside loops and limits written by
//! hand.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use xtask::failure::{Explain, Failure, Outcome};

use crate::built::build;
use crate::services::{Services, jars};
use crate::toolchain;

/// The bench finds the relay beside itself. Always both: with one alone cargo would choose other features, and compile
/// all of ours again.
const BUILT: [&str; 8] = [
    "build",
    "--release",
    "--package",
    "bench",
    "--package",
    "inbox-outbox-relay",
    "--features",
    "bench/jemalloc",
];

/// Builds for speed, finds or starts the services, and measures; the options are the bench's own.
pub(crate) fn run(arguments: &[OsString]) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    let programs = build(&BUILT)?;
    let found = programs.into_iter().find(|built| built.name == "bench");
    let bench = found.ok_or_else(|| Failure("the package `bench` has no program".to_owned()))?;
    let services = Services::find_or_start()??;
    println!("services: {}", services.line());
    let mut command = Command::new(bench.program);
    if arguments.iter().any(|one| one.to_string_lossy().ends_with("relay")) {
        command.env("INBOX_TEST_CONNECT_JARS", jars::connect()?);
        command.env("INBOX_TEST_DEBEZIUM_JARS", jars::debezium()?);
    }
    let status = command.args(arguments).envs(services.environment()).status();
    let status = status.explain(|| "cannot run the bench".to_owned())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
