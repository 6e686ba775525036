//! How a command ended: the process's exit code.

use std::process::ExitCode;

/// How a command ended. The codes are part of the contract with scripts and orchestrators, and the same
/// for all commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Exit {
    /// Done; for `run`: shut down as asked.
    Done,
    /// Failed while running: a part of the runtime panicked, or a second signal cut the shutdown short.
    Runtime,
    /// Wrong usage, configuration or registrations of handlers; starting again does not help.
    Usage,
    /// The database is out, refuses, or is not migrated.
    Database,
    /// Kafka is out or refuses, or the client is dead.
    Kafka,
    /// `check` found something that keeps a consumer from starting, or a relay from its work.
    Findings,
    /// Nothing was changed: what was named is not there, or the command wants `--yes` or `--force`.
    Refused,
    /// What `--wait` waited for has not happened, or failed.
    Unfinished,
    /// A handler blocked its thread for good.
    Blocked,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Runtime => 1,
            Self::Usage => 2,
            Self::Database => 3,
            Self::Kafka => 4,
            Self::Findings => 5,
            Self::Refused => 6,
            Self::Unfinished => 7,
            Self::Blocked => 8,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
