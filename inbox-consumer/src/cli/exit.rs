//! How a command ended: the process's exit code.

pub use service_kit::cli::Exit;

/// Every code and what it means, for `--help` and the documentation.
pub const EXITS: &[(Exit, &str)] = &[
    (Exit::Done, "success; for `run`: shut down on request"),
    (Exit::Runtime, "failed while running; restart it"),
    (Exit::Usage, "wrong usage, configuration or handlers; a restart does not help"),
    (Exit::Database, "database unavailable, request refused, or tables not migrated"),
    (Exit::Kafka, "Kafka unavailable, or request refused"),
    (Exit::Findings, "`check` found errors that prevent a start"),
    (Exit::Refused, "nothing was changed: not found, or `--yes` or `--force` is required"),
    (Exit::Unfinished, "the action that `--wait` waited for did not happen, or failed"),
    (
        Exit::Blocked,
        "a handler blocked its thread permanently; other processes acquire its partitions; \
         restart it",
    ),
];
