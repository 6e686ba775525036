//! `cargo xtask bench`: exactly-once effects per second, and rows that a relay ships, beside loops and limits written by
//! hand.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use xtask::failure::{Explain, Failure, Outcome};

use crate::built::build;
use crate::services::{Services, jars};
use crate::toolchain;

/// Builds for speed, finds or starts the services, and measures; the options are the bench's own.
pub(crate) fn run(arguments: &[OsString]) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    let of_the_relay = arguments.iter().any(|one| one.to_string_lossy().ends_with("relay"));
    let mut built =
        vec!["build", "--release", "--package", "bench", "--features", "bench/jemalloc"];
    if of_the_relay {
        // It is found beside the bench.
        built.extend(["--package", "inbox-outbox-relay"]);
    }
    let programs = build(&built)?;
    let found = programs.into_iter().find(|built| built.name == "bench");
    let bench = found.ok_or_else(|| Failure("the package `bench` has no program".to_owned()))?;
    let services = Services::find_or_start()??;
    println!("services: {}", services.line());
    let mut command = Command::new(bench.program);
    if of_the_relay {
        command.env("INBOX_TEST_CONNECT_JARS", jars::connect()?);
        command.env("INBOX_TEST_DEBEZIUM_JARS", jars::debezium()?);
    }
    let status = command.args(arguments).envs(services.environment()).status();
    let status = status.explain(|| "cannot run the bench".to_owned())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
