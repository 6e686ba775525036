//! How a command ended: the process's exit code.

pub use service_kit::cli::Exit;

use crate::BuildError;

/// Every code of a relay's commands and what it means, for `--help` and the documentation.
pub const EXITS: &[(Exit, &str)] = &[
    (Exit::Done, "success; for `run`: shut down on request"),
    (Exit::Runtime, "failed while running; restart it"),
    (Exit::Usage, "wrong usage or configuration; a restart does not help"),
    (Exit::Database, "database unavailable, request refused, or tables not migrated"),
    (Exit::Kafka, "Kafka unavailable, or request refused"),
    (Exit::Findings, "`check` found errors that prevent shipping"),
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
