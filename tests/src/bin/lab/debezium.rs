//! `cargo xtask debezium`: a real Debezium beside the relay, in front of a consumer, and in front of a read model.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use tests::{
    Executable,
    debezium::{
        CASES, Scene,
        changes::{Course, WORKER, course},
        compare, read_all, there_and_back,
    },
};

use crate::{lab, outcome::conclude};

#[derive(Args, Debug)]
pub(crate) struct DebeziumArgs {
    /// The jars of Kafka Connect.
    #[arg(long, value_name = "FOLDER")]
    connect_jars: PathBuf,
    /// The jars of Debezium's connector.
    #[arg(long, value_name = "FOLDER")]
    debezium_jars: PathBuf,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What is done; without it the relay's records are compared, and the consumer reads in each configuration.
#[derive(Subcommand, Debug)]
enum Part {
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

pub(crate) async fn run(args: DebeziumArgs) -> ExitCode {
    let scene =
        async |settings: &str| Scene::set(&args.connect_jars, &args.debezium_jars, settings).await;
    match args.part {
        None => {
            compare_all(&scene("").await).await;
            read(&scene("").await, "").await
        }
        Some(Part::Relay) => {
            compare_all(&scene("").await).await;
            ExitCode::SUCCESS
        }
        Some(Part::Consumer { name }) => read(&scene("").await, &name).await,
        Some(Part::Changes { changes, kills, seed, numbered }) => {
            let plan = Course { changes, kills, seed, numbered };
            let scene = scene(WORKER).await;
            let report = course(&scene, &Executable::worker(lab()), plan).await;
            let checked = "the copy is equal, each change took effect once and in order";
            conclude(&report, &report.violations, None, checked)
        }
    }
}

async fn compare_all(scene: &Scene) {
    let relay = Executable::relay(lab());
    for case in CASES {
        compare(scene, &relay, case).await;
    }
    there_and_back(scene, &relay).await;
}

async fn read(scene: &Scene, name: &str) -> ExitCode {
    let (count, failed) = read_all(scene, name).await;
    println!("{} of {count} configurations are read as they should be", count - failed.len());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}
