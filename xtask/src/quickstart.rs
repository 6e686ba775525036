//! `cargo quickstart`: the main job on this machine, with nothing installed.

use std::ffi::OsString;
use std::process::ExitCode;

use xtask::failure::{Explain, Outcome};

use crate::folders::cargo;
use crate::toolchain;

/// Sees to the toolchain, builds the example and runs it; its exit code is ours.
pub(crate) fn run(arguments: &[OsString]) -> Outcome<ExitCode> {
    toolchain::ensure(toolchain::BUILD)?;
    let mut command = cargo(&["run", "--package", "quickstart", "--"]);
    let status =
        command.args(arguments).status().explain(|| "cannot run the quick start".to_owned())?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
