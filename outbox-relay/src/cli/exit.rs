//! How a command ended: the process's exit code.

use std::process::ExitCode;

use crate::BuildError;

/// How a command ended. The codes are those of inbox-consumer's commands, and part of the contract with
/// scripts and orchestrators.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Exit {
    /// Done; for `run`: shut down as asked.
    Done,
    /// Failed while running: a second signal cut the shutdown short.
    Runtime,
    /// Wrong usage or configuration; starting again does not help.
    Usage,
    /// The database is out, refuses, or is not migrated.
    Database,
    /// Kafka is out or refuses.
    Kafka,
    /// `check` found something that keeps a relay from its work.
    Findings,
}

impl Exit {
    /// Every code and what it means, for `--help` and the documentation.
    pub const TABLE: &[(Self, &str)] = &[
        (Self::Done, "done; for `run`: shut down as asked"),
        (Self::Runtime, "failed while running; starting again is right"),
        (Self::Usage, "wrong usage or configuration; starting again does not help"),
        (Self::Database, "the database is out, refuses, or is not migrated"),
        (Self::Kafka, "Kafka is out or refuses"),
        (Self::Findings, "`check` found what keeps a relay from its work"),
    ];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Runtime => 1,
            Self::Usage => 2,
            Self::Database => 3,
            Self::Kafka => 4,
            Self::Findings => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<&BuildError> for Exit {
    fn from(error: &BuildError) -> Self {
        match error {
            BuildError::Config(_) => Self::Usage,
            BuildError::Database(_) | BuildError::Schema(_) | BuildError::Unsafe(_) => {
                Self::Database
            }
        }
    }
}
