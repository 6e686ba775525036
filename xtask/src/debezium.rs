//! `cargo xtask debezium`: a real Debezium beside the relay, in front of a consumer, and in front of a read model.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use xtask::failure::Outcome;

use crate::program;
use crate::services::jars;
use crate::toolchain;

/// What is done; without it the relay's records are compared, and the consumer reads in each configuration.
#[derive(Subcommand, Debug)]
pub(crate) enum Part {
    /// The relay's records beside Debezium's, and the way from one to the other and back.
    Relay,
    /// A consumer behind a connector in each configuration of `tests/src/debezium/reading`.
    Consumer {
        /// Only those whose name contains this.
        #[arg(default_value = "")]
        name: String,
    },
    /// Changes of two tables into a read model, while connector and consumers are killed.
    Changes {
        /// Changes of rows, at least.
        #[arg(long, default_value_t = 100_000)]
        changes: u64,
        /// Kills of the connector, and as many of consumers.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
        kills: u64,
        /// Makes what is written.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Lets the connector number the changes of a transaction.
        #[arg(long)]
        numbered: bool,
    },
}

pub(crate) fn run(part: Option<&Part>) -> Outcome<ExitCode> {
    if let Some(absent) = toolchain::services()? {
        return Err(absent);
    }
    let jars: [OsString; 2] = [jars::connect()?.into(), jars::debezium()?.into()];
    let go = |words: &[&str]| {
        let words = words.iter().map(OsString::from);
        program::run("debezium", jars.iter().cloned().chain(words).collect())
    };
    match part {
        Some(Part::Relay) => go(&["relay"]),
        Some(Part::Consumer { name }) => go(&["consumer", name]),
        Some(Part::Changes { changes, kills, seed, numbered }) => {
            let [changes, kills, seed] = [changes, kills, seed].map(u64::to_string);
            let numbered = if *numbered { "numbered" } else { "plain" };
            go(&["changes", &changes, &kills, &seed, numbered])
        }
        None => {
            let relay = go(&["relay"])?;
            if relay == ExitCode::SUCCESS { go(&["consumer"]) } else { Ok(relay) }
        }
    }
}
