//! One program for everything that tests run as a process: long runs and measurements, chosen by a subcommand, and the
//! consumer, the relay and the lessons of `examples`, chosen by an environment variable. Each further program would link librdkafka and sqlx again.

mod costs;
mod debezium;
mod deploy;
mod drill;
mod intake_speed;
mod lessons;
mod outcome;
mod relay_chaos;
mod relay_readings;
mod relay_webhooks;
mod settle;
mod soak;
mod worker;

use std::{env, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use tests::Executable;

/// Long runs and measurements on the services in the environment; `cargo xtask` starts those and calls these.
#[derive(Parser, Debug)]
#[command(name = "lab")]
struct Lab {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand, Debug)]
enum Tool {
    /// What an event costs the database: messages, transactions, WAL, rows kept; and how long it takes.
    Costs(costs::CostsArgs),
    /// A real Debezium beside the relay, and in front of consumers, on servers of its own.
    Debezium(debezium::DebeziumArgs),
    /// A bad deploy that parks events up to the limit, and the release after it; or rolling restarts.
    Deploy(deploy::DeployArgs),
    /// Faults against a consumer with its default configuration: how long until each is reported.
    Drill(drill::DrillArgs),
    /// How many events a second the HTTP intake accepts, beside a receiver written by hand.
    IntakeSpeed(intake_speed::IntakeSpeedArgs),
    /// Relays that are killed and frozen, and databases that go back, while producers commit out of order, judged
    /// by a checker.
    RelayChaos(relay_chaos::RelayChaosArgs),
    /// What polling for a relay's metrics costs the database beside many unsent rows.
    RelayReadings(relay_readings::RelayReadingsArgs),
    /// How a relay delivers by HTTP: how fast, after an outage of the receiver, beside an event that always fails.
    RelayWebhooks(relay_webhooks::RelayWebhooksArgs),
    /// A backlog settled by a kind of handler, without services: what `cargo xtask engine` counts the instructions of.
    Settle(settle::SettleArgs),
    /// A long run with killed and frozen consumers, judged by an independent checker.
    Soak(soak::SoakArgs),
}

impl Tool {
    async fn run(self) -> ExitCode {
        match self {
            Self::Costs(args) => costs::run(args).await,
            Self::Debezium(args) => debezium::run(args).await,
            Self::Deploy(args) => deploy::run(args).await,
            Self::Drill(args) => drill::run(args).await,
            Self::IntakeSpeed(args) => intake_speed::run(args).await,
            Self::RelayChaos(args) => relay_chaos::run(args).await,
            Self::RelayReadings(args) => relay_readings::run(args).await,
            Self::RelayWebhooks(args) => relay_webhooks::run(args).await,
            Self::Settle(args) => settle::run(args),
            Self::Soak(args) => soak::run(args).await,
        }
    }
}

fn main() -> ExitCode {
    let program = env::var(Executable::VARIABLE);
    // A lesson starts its own runtime.
    program.as_deref().ok().and_then(lessons::run).unwrap_or_else(|| run(program.as_deref().ok()))
}

#[tokio::main]
async fn run(program: Option<&str>) -> ExitCode {
    match program {
        Some(Executable::WORKER) => worker::run().await,
        Some(Executable::RELAY) => outbox_relay::cli::main().await,
        _ => Box::pin(Lab::parse().tool.run()).await,
    }
}

/// This program's file, which is that of the consumer and the relay, too.
fn lab() -> PathBuf {
    env::current_exe().expect("this program has a path")
}
