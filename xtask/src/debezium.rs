//! `cargo xtask debezium`: the relay's records beside those of a real Debezium, and the way from one to the other and back.

use std::process::ExitCode;

use xtask::failure::Outcome;

use crate::program;
use crate::services::jars;
use crate::toolchain;

pub(crate) fn run() -> Outcome<ExitCode> {
    if let Some(absent) = toolchain::services()? {
        return Err(absent);
    }
    let (connect, plugin) = (jars::connect()?, jars::debezium()?);
    program::run("debezium", vec![connect.into(), plugin.into()])
}
