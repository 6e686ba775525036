//! The command line.

use clap::{Subcommand, ValueEnum};
use inbox_store::internal::port::RoleKind;
use service_kit::cli::{Program, Tool};

use super::{
    events::Events,
    exit::EXITS,
    park::Park,
    parked::{Forget, Parked},
    retire::Retire,
    skip::Skip,
};
use crate::{
    config::{Config, TABLE},
    telemetry::Signal,
};

/// How the command line and the configuration are read.
pub(super) const PROGRAM: Program<Config> = Program {
    name: "inbox-consumer",
    version: env!("CARGO_PKG_VERSION"),
    about: "Consume events from Kafka with exactly-once effects in SQL",
    exits: EXITS,
    file: "consumer.toml",
    env: "INBOX_CONFIG",
    table: TABLE,
    load: Config::load,
    log: |config| &config.log,
    traces: |config| (&config.traces, &config.consumer.name),
    instance: |config| ("consumer", config.consumer.name.clone()),
    tell: |notice| Signal::from(notice).emit(),
    panicked: |panic| Signal::from(panic).emit(),
    show_values: outbox_core::internal::show_values,
};

/// A [`RoleKind`] as a word of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum RolePurpose {
    /// Run a consumer and its commands
    Consumer,
    /// Like `consumer`, with handlers that append to the outbox
    AppendingConsumer,
    /// Ship the outbox
    Relay,
    /// Append events, nothing else
    Appender,
    /// Read only
    Reader,
    /// Run `forget`, the only command that changes the audit
    Eraser,
}

impl From<RolePurpose> for RoleKind {
    fn from(purpose: RolePurpose) -> Self {
        match purpose {
            RolePurpose::Consumer => Self::Consumer,
            RolePurpose::AppendingConsumer => Self::AppendingConsumer,
            RolePurpose::Relay => Self::Relay,
            RolePurpose::Appender => Self::Appender,
            RolePurpose::Reader => Self::Reader,
            RolePurpose::Eraser => Self::Eraser,
        }
    }
}

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub(super) enum Command {
    /// Consume until SIGTERM or SIGINT
    Run {
        /// Run only the events that another process of this program names, and roll them back
        #[arg(long, hide = true)]
        trial: bool,
    },
    /// Check configuration, handlers, database and Kafka, and report problems
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Also show this many of the newest records of each topic, and what the consumer would do
        /// with each
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=200))]
        sample: Option<u16>,
    },
    /// Inspect how records become events
    Events {
        #[command(subcommand)]
        command: Events,
    },
    /// Create or update the tables of inbox and outbox
    Migrate {
        /// Print the SQL statements instead, for your own migration tool; needs no configuration
        #[arg(long)]
        print: bool,
        /// Print the minimal grants for ROLE instead, to be run by the tables' owner
        #[arg(long, value_name = "ROLE", conflicts_with = "print")]
        print_grants: Option<String>,
        /// Purpose of the role
        #[arg(
            long = "for",
            value_name = "KIND",
            default_value = "consumer",
            requires = "print_grants"
        )]
        kind: RolePurpose,
    },
    /// Show the state of each partition
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Show the events that hold up lanes: attempt, duration and last error
        #[arg(long, conflicts_with = "json")]
        lanes: bool,
        /// Include topics that are in the database but no longer in the configuration
        #[arg(long)]
        all: bool,
    },
    /// Delete inbox rows older than the retention now, without waiting for the runtime
    Prune,
    /// List, show, release and discard parked events
    Parked {
        #[command(subcommand)]
        command: Parked,
    },
    /// Park one event that is not settled yet, instead of running it
    Park(Park),
    /// Erase the readable data of one aggregate: parked events, errors, texts of the audit
    Forget(Forget),
    /// Raise a partition's watermark to an offset and give up everything below it
    Skip(Skip),
    /// Drop the state of a topic that was deleted or re-created
    Retire(Retire),
    #[command(flatten)]
    Tool(Tool),
}
