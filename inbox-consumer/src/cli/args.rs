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
    about: "Consumes events from Kafka with exactly-once effects in SQL",
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
    /// Runs a consumer and its commands
    Consumer,
    /// The same, with handlers that append to the outbox
    AppendingConsumer,
    /// Ships the outbox
    Relay,
    /// Appends events, and nothing else
    Appender,
    /// Looks, and changes nothing
    Reader,
    /// Runs `forget`, the only one that changes the audit
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
    /// Consumes until SIGTERM or SIGINT
    Run {
        /// Only runs events that another process of this program names, and takes back what they did
        #[arg(long, hide = true)]
        trial: bool,
    },
    /// Looks at configuration, handlers, database and Kafka, and says what is wrong
    Check {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Also shows some of the newest records of each topic, and what each is to this consumer
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=200))]
        sample: Option<u16>,
    },
    /// Looks at how records become events
    Events {
        #[command(subcommand)]
        command: Events,
    },
    /// Creates or updates the tables of inbox and outbox
    Migrate {
        /// Writes the statements out instead, for a tool of your own; needs no configuration
        #[arg(long)]
        print: bool,
        /// Writes out instead the statements that give a role what it needs, for the tables' owner to run
        #[arg(long, value_name = "ROLE", conflicts_with = "print")]
        print_grants: Option<String>,
        /// What the role is for
        #[arg(
            long = "for",
            value_name = "KIND",
            default_value = "consumer",
            requires = "print_grants"
        )]
        kind: RolePurpose,
    },
    /// Shows where each partition stands
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// What holds lanes: the event, its attempt, since when, and its last error
        #[arg(long, conflicts_with = "json")]
        lanes: bool,
        /// Also topics that are in the database and not in the configuration any more
        #[arg(long)]
        all: bool,
    },
    /// Removes inbox rows older than the retention now, instead of waiting for the runtime
    Prune,
    /// Lists, shows, releases and discards parked events
    Parked {
        #[command(subcommand)]
        command: Parked,
    },
    /// Parks one event that is not settled yet instead of running it
    Park(Park),
    /// Erases what is kept in words of one aggregate: parked events, errors, the audit's texts
    Forget(Forget),
    /// Raises a partition's watermark to an offset: what lies below it is given up
    Skip(Skip),
    /// Gives the rows of a topic up that was deleted, or deleted and created again
    Retire(Retire),
    #[command(flatten)]
    Tool(Tool),
}
