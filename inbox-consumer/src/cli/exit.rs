//! How a command ended: the process's exit code.

pub use service_kit::cli::Exit;

/// Every code and what it means, for `--help` and the documentation.
pub const EXITS: &[(Exit, &str)] = &[
    (Exit::Done, "done; for `run`: shut down as asked"),
    (Exit::Runtime, "failed while running; starting again is right"),
    (Exit::Usage, "wrong usage, configuration or handlers; starting again does not help"),
    (Exit::Database, "the database is out, refuses, or is not migrated"),
    (Exit::Kafka, "Kafka is out or refuses"),
    (Exit::Findings, "`check` found what keeps a consumer from starting"),
    (Exit::Refused, "nothing was changed: not there, or `--yes` or `--force` is wanted"),
    (Exit::Unfinished, "what `--wait` waited for has not happened, or failed"),
    (
        Exit::Blocked,
        "a handler blocked its thread for good; others take the partitions, starting again is right",
    ),
];
