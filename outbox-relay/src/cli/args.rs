//! The command line.

use clap::Subcommand;
use service_kit::cli::Program;

use super::exit::EXITS;
use crate::{
    config::{Config, TABLE},
    port::{Choice, RoleKind},
    telemetry::Signal,
};

/// How the command line and the configuration are read.
pub(super) const PROGRAM: Program<Config> = Program {
    name: "outbox-relay",
    about: "Ships an outbox table to Kafka",
    exits: EXITS,
    file: "relay.toml",
    env: "OUTBOX_CONFIG",
    target: TABLE.target,
    load: Config::load,
    log: |config| &config.log,
    traces: |config| (&config.traces, "outbox-relay"),
    tell: |notice| Signal::from(notice).emit(),
    show_values: outbox_core::internal::show_values,
};

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub(super) enum Command {
    /// Ships until SIGTERM or SIGINT
    Run,
    /// Looks at configuration, database and Kafka, and says what is wrong; fences nobody
    Check,
    /// Creates or updates the outbox tables
    Migrate {
        /// Writes the statements out instead, for a tool of your own
        #[arg(long)]
        print: bool,
        /// Writes out instead the statements that give a role what it needs, for the tables' owner to run
        #[arg(long, value_name = "ROLE", conflicts_with = "print")]
        print_grants: Option<String>,
        /// What the role is for
        #[arg(
            long = "for",
            value_name = "KIND",
            default_value = "relay",
            requires = "print_grants"
        )]
        kind: RoleKind,
    },
    /// Shows how the outbox stands
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Rows that cannot be sent and were set aside
    Failed {
        #[command(subcommand)]
        verb: Verb,
    },
}

/// What to do about rows that were set aside.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub(super) enum Verb {
    /// Lists them, the oldest first
    List {
        #[command(flatten)]
        which: Which,
        /// As JSON
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        max: u32,
    },
    /// Lets them be sent once more
    Retry {
        #[command(flatten)]
        which: Which,
    },
    /// Gives them up for good: no consumer ever sees them, and what waits behind them goes
    Discard {
        #[command(flatten)]
        which: Which,
        /// Who decided it; by default the user of this machine
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

/// Which rows.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
pub(super) struct Which {
    /// One row, by its number
    #[arg(long)]
    pub(super) seq: Option<i64>,
    /// Those of one aggregate
    #[arg(long, value_name = "TYPE/ID")]
    pub(super) aggregate: Option<String>,
    /// Those whose error contains a text
    #[arg(long, value_name = "TEXT")]
    pub(super) error: Option<String>,
    /// All of them
    #[arg(long)]
    pub(super) all: bool,
}

impl Which {
    /// The choice. Changing rows needs one: a forgotten flag shall not discard everything.
    pub(super) fn choice(&self, changes: bool) -> Result<Choice, String> {
        let aggregate = match &self.aggregate {
            None => None,
            Some(text) => match text.split_once('/') {
                Some((kind, id)) if !kind.is_empty() && !id.is_empty() => {
                    Some((kind.to_owned(), id.to_owned()))
                }
                _ => {
                    return Err(format!(
                        "--aggregate is {text:?}; it takes TYPE/ID, such as Order/1001"
                    ));
                }
            },
        };
        let choice = Choice { seq: self.seq, aggregate, error: self.error.clone() };
        match (self.all, choice == Choice::default()) {
            (true, false) => Err("--all goes with no other choice; leave one of them out".into()),
            (false, true) if changes => {
                Err("say which rows: --seq, --aggregate, --error or --all".into())
            }
            _ => Ok(choice),
        }
    }
}
