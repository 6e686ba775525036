//! How a command ended: the process's exit code.

use std::process::ExitCode;

/// How a command ended. The codes are part of the contract with scripts and orchestrators.
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
    /// `check` found something that keeps a consumer from starting.
    Findings,
    /// Nothing was changed: what was named is not there, or the command wants `--yes` or `--force`.
    Refused,
    /// What `--wait` waited for has not happened, or failed.
    Unfinished,
}

impl Exit {
    /// Every code and what it means, for `--help` and the documentation.
    pub const TABLE: &[(Self, &str)] = &[
        (Self::Done, "done; for `run`: shut down as asked"),
        (Self::Runtime, "failed while running; starting again is right"),
        (Self::Usage, "wrong usage, configuration or handlers; starting again does not help"),
        (Self::Database, "the database is out, refuses, or is not migrated"),
        (Self::Kafka, "Kafka is out or refuses"),
        (Self::Findings, "`check` found what keeps a consumer from starting"),
        (Self::Refused, "nothing was changed: not there, or `--yes` or `--force` is wanted"),
        (Self::Unfinished, "what `--wait` waited for has not happened, or failed"),
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
            Self::Refused => 6,
            Self::Unfinished => 7,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
