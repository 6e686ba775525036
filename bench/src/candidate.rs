//! The candidates by name.

use clap::ValueEnum;
use xtask::failure::{Outcome, failure};

/// Who is measured.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Candidate {
    /// Consumes and counts; no database.
    Kafka,
    /// The loop that people write: a transaction per event, one after the other.
    Loop,
    /// The same with a task per partition.
    LoopPartitions,
    /// The limit of a transaction per event: claim and effect in one statement.
    LimitTx,
    /// The limit of handlers: a transaction per batch, one awaited statement per event.
    LimitAwaited,
    /// The same with pipelined statements.
    LimitPipelined,
    /// The limit of set-based effects: one claim and one statement per batch.
    LimitSet,
    /// The limit of handlers on SQLite when they go through sqlx, whose sessions are threads.
    LimitSqlx,
    /// The limit of set-based effects on SQLite, through sqlx as well.
    LimitSqlxSet,
    /// Ours: `Handler`, one awaited statement per event.
    Handler,
    /// Ours: `Handler`, one queued statement per event.
    Queued,
    /// Ours: `BatchHandler`, one statement per run.
    Batch,
    /// Ours: `BatchHandler` that fails for every run of more than one event: the careful run has them all.
    Careful,
    /// Ours: declared SQL, event by event.
    SqlEach,
    /// Ours: declared SQL, run by run.
    SqlRun,
}

/// What a candidate leaves in the database beside the effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inbox {
    /// Nothing, and no effects either.
    None,
    /// The inbox that people write: an id and a time.
    Plain,
    /// Ours.
    Ours,
}

impl Inbox {
    /// Its table.
    pub(crate) fn table(self) -> Outcome<&'static str> {
        match self {
            Self::Plain => Ok("inbox"),
            Self::Ours => Ok("inbox_events"),
            Self::None => failure("this candidate writes nothing to the database"),
        }
    }
}

impl Candidate {
    /// Its name on the command line and in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Loop => "loop",
            Self::LoopPartitions => "loop-partitions",
            Self::LimitTx => "limit-tx",
            Self::LimitAwaited => "limit-awaited",
            Self::LimitPipelined => "limit-pipelined",
            Self::LimitSet => "limit-set",
            Self::LimitSqlx => "limit-sqlx",
            Self::LimitSqlxSet => "limit-sqlx-set",
            Self::Handler => "handler",
            Self::Queued => "queued",
            Self::Batch => "batch",
            Self::Careful => "careful",
            Self::SqlEach => "sql-each",
            Self::SqlRun => "sql-run",
        }
    }

    /// The limit that it is held against.
    pub(crate) fn limit(self, sqlite: bool) -> Option<Self> {
        match self {
            Self::Handler if sqlite => Some(Self::LimitSqlx),
            Self::Batch if sqlite => Some(Self::LimitSqlxSet),
            Self::Loop | Self::LoopPartitions | Self::Careful => Some(Self::LimitTx),
            Self::Handler => Some(Self::LimitAwaited),
            Self::Queued | Self::SqlEach => Some(Self::LimitPipelined),
            Self::Batch | Self::SqlRun => Some(Self::LimitSet),
            Self::Kafka
            | Self::LimitTx
            | Self::LimitAwaited
            | Self::LimitPipelined
            | Self::LimitSet
            | Self::LimitSqlx
            | Self::LimitSqlxSet => None,
        }
    }

    /// Whether it is a loop on SQLite that goes through sqlx.
    pub(crate) fn through_sqlx(self) -> bool {
        matches!(self, Self::LimitSqlx | Self::LimitSqlxSet)
    }

    /// What is found in the database after it.
    pub(crate) fn inbox(self) -> Inbox {
        match self {
            Self::Kafka => Inbox::None,
            Self::Handler
            | Self::Queued
            | Self::Batch
            | Self::Careful
            | Self::SqlEach
            | Self::SqlRun => Inbox::Ours,
            Self::Loop
            | Self::LoopPartitions
            | Self::LimitTx
            | Self::LimitAwaited
            | Self::LimitPipelined
            | Self::LimitSet
            | Self::LimitSqlx
            | Self::LimitSqlxSet => Inbox::Plain,
        }
    }
}
