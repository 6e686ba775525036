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
    /// The limit of shipping: rows read ahead, several batches of an idempotent producer in flight, marks of the
    /// rows that are acknowledged; no fencing, one process.
    LimitOutbox,
    /// The loop that people write to ship: a hundred rows locked, sent, marked; then half a second of sleep.
    OutboxSleep,
    /// The same without the sleep.
    OutboxLoop,
    /// Ours: the program `outbox-relay` with its defaults.
    Relay,
    /// The same without transactions of Kafka.
    RelayUnfenced,
    /// Debezium's connector with its outbox event router and its defaults, which look for changes twice a second.
    Debezium,
    /// The same, looking a hundred times a second.
    DebeziumPrompt,
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
            Self::LimitOutbox => "limit-outbox",
            Self::OutboxSleep => "outbox-sleep",
            Self::OutboxLoop => "outbox-loop",
            Self::Relay => "relay",
            Self::RelayUnfenced => "relay-unfenced",
            Self::Debezium => "debezium",
            Self::DebeziumPrompt => "debezium-prompt",
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
            Self::OutboxSleep
            | Self::OutboxLoop
            | Self::Relay
            | Self::RelayUnfenced
            | Self::Debezium
            | Self::DebeziumPrompt => Some(Self::LimitOutbox),
            Self::Kafka
            | Self::LimitOutbox
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

    /// Whether it ships an outbox instead of handling events.
    pub(crate) fn ships(self) -> bool {
        matches!(self, Self::LimitOutbox | Self::OutboxSleep | Self::OutboxLoop)
            || self.relays()
            || self.decodes()
    }

    /// Whether it reads the log of the database, and marks nothing.
    pub(crate) fn decodes(self) -> bool {
        matches!(self, Self::Debezium | Self::DebeziumPrompt)
    }

    /// Whether it is our relay, several of which may share an outbox.
    pub(crate) fn relays(self) -> bool {
        matches!(self, Self::Relay | Self::RelayUnfenced)
    }

    /// Whether another build of ours can take its turn.
    pub(crate) fn is_ours(self) -> bool {
        self.relays() || self.inbox() == Inbox::Ours
    }

    /// What is found in the database after it.
    pub(crate) fn inbox(self) -> Inbox {
        match self {
            Self::Kafka
            | Self::LimitOutbox
            | Self::OutboxSleep
            | Self::OutboxLoop
            | Self::Relay
            | Self::RelayUnfenced
            | Self::Debezium
            | Self::DebeziumPrompt => Inbox::None,
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
