//! The command line.

use clap::Subcommand;
use service_kit::cli::{Program, Tool};

use super::exit::EXITS;
use crate::{
    DatabaseOptions,
    config::{Config, TABLE},
    feed,
    port::{Choice, RoleKind, Sessions},
    relay::{address, options_of},
    telemetry::Signal,
};

/// How the command line and the configuration are read.
pub(super) const PROGRAM: Program<Config> = Program {
    name: "outbox-relay",
    version: env!("CARGO_PKG_VERSION"),
    about: "Ship an outbox table to Kafka and to webhooks",
    exits: EXITS,
    file: "relay.toml",
    env: "OUTBOX_CONFIG",
    table: TABLE,
    load: Config::load,
    log: |config| &config.log,
    traces: |config| (&config.traces, "outbox-relay"),
    instance: |config| ("outbox", outbox_of(config)),
    tell: |notice| Signal::from(notice).emit(),
    panicked: |panic| Signal::from(panic).emit(),
    show_values: outbox_core::internal::show_values,
};

/// Which outbox a configuration names, as metrics have it; empty where it cannot be read.
fn outbox_of(config: &Config) -> String {
    let address = address(config);
    match options_of(config) {
        #[cfg(feature = "postgres")]
        Ok(DatabaseOptions::Postgres(options)) => {
            let settings = feed::Postgres::settings(*options, &address);
            feed::Postgres::outbox(&settings)
        }
        #[cfg(feature = "sqlite")]
        Ok(DatabaseOptions::Sqlite(options)) => {
            let settings = feed::Sqlite::settings(*options, &address);
            feed::Sqlite::outbox(&settings)
        }
        Err(_) => String::new(),
    }
}

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub(super) enum Command {
    /// Ship until SIGTERM or SIGINT
    Run,
    /// Check configuration, database and Kafka, and report problems; acquires no lease
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create or update the outbox tables
    Migrate {
        /// Print the SQL statements instead, for your own migration tool
        #[arg(long)]
        print: bool,
        /// Print the minimal grants for ROLE instead, to be run by the tables' owner
        #[arg(long, value_name = "ROLE", conflicts_with = "print")]
        print_grants: Option<String>,
        /// Purpose of the role
        #[arg(
            long = "for",
            value_name = "KIND",
            default_value = "relay",
            requires = "print_grants"
        )]
        kind: RoleKind,
        /// PostgreSQL: create or drop the trigger that wakes relays at each INSERT, for writers that do not notify
        #[arg(long, value_name = "STATE", conflicts_with = "print_grants")]
        notify_trigger: Option<NotifyTrigger>,
    },
    /// PostgreSQL: copy each row inserted into another outbox table, such as Debezium's, into `outbox_events`
    Adopt {
        /// The table, with its schema: public.outbox
        #[arg(long, value_name = "TABLE")]
        table: String,
        /// Print the SQL statements instead, for your own migration tool
        #[arg(long)]
        print: bool,
        /// Stop copying: drop the trigger
        #[arg(long)]
        end: bool,
    },
    /// Show the state of the outbox
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List, show, retry and discard rows that are parked or in retry
    Failed {
        #[command(subcommand)]
        verb: Verb,
    },
    #[command(flatten)]
    Tool(Tool),
}

/// Whether the trigger is to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum NotifyTrigger {
    /// Create the trigger if it does not exist
    On,
    /// Drop the trigger
    Off,
}

/// What to do about rows that were set aside.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub(super) enum Verb {
    /// List the rows, oldest first
    List {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Maximum number of rows
        #[arg(long, default_value_t = 100)]
        max: u32,
    },
    /// Show everything about one row, in any state
    Show {
        /// Number of the row, from `failed list`
        #[arg(value_name = "SEQ")]
        seq: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send the rows again now, with a new count of attempts
    Retry {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        hand: Hand,
    },
    /// Discard the rows permanently: no consumer ever gets them; rows blocked behind them are sent
    Discard {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        hand: Hand,
    },
}

/// Whose hand it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
pub(super) struct Hand {
    /// Your name for the audit; by default the user of this machine
    #[arg(long, visible_alias = "as", value_name = "NAME")]
    pub(super) by: Option<String>,
    /// Reason, kept in the audit
    #[arg(
        long,
        visible_alias = "why",
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) reason: String,
    /// Print the outcome as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Which rows.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
pub(super) struct Which {
    /// One row, by its number
    #[arg(long)]
    pub(super) seq: Option<i64>,
    /// Rows of one aggregate
    #[arg(long, value_name = "TYPE/ID")]
    pub(super) aggregate: Option<String>,
    /// Rows whose error contains a text
    #[arg(long, value_name = "TEXT")]
    pub(super) error: Option<String>,
    /// Rows of one event type
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// All rows except those scheduled for later
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
                        "--aggregate is {text:?}; write TYPE/ID, such as Order/1001"
                    ));
                }
            },
        };
        let (error, event_type) = (self.error.clone(), self.event_type.clone());
        let choice = Choice { seq: self.seq, aggregate, error, event_type };
        match (self.all, choice == Choice::default()) {
            (true, false) => {
                Err("--all cannot be combined with other filters; remove one of them".into())
            }
            (false, true) if changes => {
                Err("choose rows: --seq, --aggregate, --error, --type or --all".into())
            }
            _ => Ok(choice),
        }
    }
}
