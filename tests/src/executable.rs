//! The consumer, the relay and the lessons as processes: the program `lab` of this package is all of them.

use std::{path::PathBuf, process::Command};

/// A command line of the product, which `lab` runs instead of its own.
///
/// It reads the arguments of its process, and starts itself with the same ones for a trial: so an environment
/// variable, which children inherit, selects it.
#[derive(Clone, Debug)]
pub struct Executable {
    lab: PathBuf,
    name: &'static str,
}

impl Executable {
    /// The variable that names the command line to run.
    pub const VARIABLE: &str = "LAB_PROGRAM";
    /// Names the consumer with the handlers of tests.
    pub const WORKER: &str = "worker";
    /// Names the relay.
    pub const RELAY: &str = "relay";

    /// The consumer, in the file of `lab`.
    pub fn worker(lab: impl Into<PathBuf>) -> Self {
        Self { lab: lab.into(), name: Self::WORKER }
    }

    /// The relay, in the file of `lab`.
    pub fn relay(lab: impl Into<PathBuf>) -> Self {
        Self { lab: lab.into(), name: Self::RELAY }
    }

    /// A lesson of `examples`, by the name of its file.
    pub fn lesson(lab: impl Into<PathBuf>, name: &'static str) -> Self {
        Self { lab: lab.into(), name }
    }

    /// A process of it, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.lab);
        command.env(Self::VARIABLE, self.name);
        command
    }
}

/// The same process with at most `kib` KiB of addresses; its folder and its streams are not taken over.
pub fn limit_memory(command: &Command, kib: u64) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {kib} && exec \"$0\" \"$@\""));
    shell.arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}
