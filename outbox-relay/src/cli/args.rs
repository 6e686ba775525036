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
    about: "Ships an outbox table to Kafka and to webhooks",
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
    /// Ships until SIGTERM or SIGINT
    Run,
    /// Looks at configuration, database and Kafka, and says what is wrong; fences nobody
    Check {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
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
        /// PostgreSQL: makes the trigger that wakes relays at each INSERT, for writers that do not, or removes it
        #[arg(long, value_name = "STATE", conflicts_with = "print_grants")]
        notify_trigger: Option<NotifyTrigger>,
    },
    /// PostgreSQL: has each row that is inserted into another outbox table, such as Debezium's, copied into ours
    Adopt {
        /// The table, with its schema: public.outbox
        #[arg(long, value_name = "TABLE")]
        table: String,
        /// Writes the statements out instead, for a tool of your own
        #[arg(long)]
        print: bool,
        /// Ends it: the trigger goes
        #[arg(long)]
        end: bool,
    },
    /// Shows how the outbox stands
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Rows that were set aside: they cannot be sent, or are tried again later
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
    /// It is made, unless it is there
    On,
    /// It is removed
    Off,
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
    /// Shows everything about one row, whatever became of it
    Show {
        /// Its number, from `failed list`
        #[arg(value_name = "SEQ")]
        seq: i64,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Lets them be sent once more, now, as if they had never been tried
    Retry {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        hand: Hand,
    },
    /// Gives them up for good: no consumer ever sees them, and what waits behind them goes
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
    /// Who decided it; by default the user of this machine
    #[arg(long, visible_alias = "as", value_name = "NAME")]
    pub(super) by: Option<String>,
    /// Why: written into the audit
    #[arg(
        long,
        visible_alias = "why",
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) reason: String,
    /// What came of it, as JSON
    #[arg(long)]
    pub(super) json: bool,
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
    /// Those of one event type
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// All of them, but those that only wait for their time
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
        let (error, event_type) = (self.error.clone(), self.event_type.clone());
        let choice = Choice { seq: self.seq, aggregate, error, event_type };
        match (self.all, choice == Choice::default()) {
            (true, false) => Err("--all goes with no other choice; leave one of them out".into()),
            (false, true) if changes => {
                Err("say which rows: --seq, --aggregate, --error, --type or --all".into())
            }
            _ => Ok(choice),
        }
    }
}
