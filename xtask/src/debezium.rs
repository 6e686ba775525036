//! `cargo xtask debezium`: fetches the jars of Kafka Connect and of Debezium for the lab.

use std::ffi::OsString;
use std::process::ExitCode;

use xtask::failure::Outcome;

use crate::program;
use crate::services::jars;
use crate::toolchain;

pub(crate) fn run(passed_on: Vec<OsString>) -> Outcome<ExitCode> {
    if program::is_help(&passed_on) {
        return program::run("debezium", "dev", &passed_on);
    }
    if let Some(absent) = toolchain::services()? {
        return Err(absent);
    }
    let mut arguments: Vec<OsString> = vec!["--connect-jars".into(), jars::connect()?.into()];
    arguments.extend(["--debezium-jars".into(), jars::debezium()?.into()]);
    arguments.extend(passed_on);
    program::run("debezium", "dev", &arguments)
}
