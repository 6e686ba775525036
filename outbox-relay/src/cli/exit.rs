//! How a command ended: the process's exit code.

pub use service_kit::cli::Exit;

use crate::BuildError;

/// Every code of a relay's commands and what it means, for `--help` and the documentation.
pub const EXITS: &[(Exit, &str)] = &[
    (Exit::Done, "done; for `run`: shut down as asked"),
    (Exit::Runtime, "failed while running; starting again is right"),
    (Exit::Usage, "wrong usage or configuration; starting again does not help"),
    (Exit::Database, "the database is out, refuses, or is not migrated"),
    (Exit::Kafka, "Kafka is out or refuses"),
    (Exit::Findings, "`check` found what keeps a relay from its work"),
];

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
