//! `cargo xtask relay-webhooks`: how a relay delivers by HTTP.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use tests::{
    Executable,
    relay_webhooks::{Away, Poison, Refusal, Speed, measure_away, measure_poison, measure_speed},
};

use crate::{lab, outcome::save};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Scenario {
    /// How many events a second, beside loops written by hand.
    Speed,
    /// A receiver that is away for a while.
    Away,
    /// An event that the receiver never accepts, beside all others.
    Poison,
}

#[derive(Args, Debug)]
pub(crate) struct RelayWebhooksArgs {
    /// What is measured.
    #[arg(value_enum, default_value_t = Scenario::Speed)]
    scenario: Scenario,
    /// With `speed` and `poison`: events, without 500 that go before the clock starts; by default 20,000 and 50,000.
    #[arg(long)]
    events: Option<usize>,
    /// With `speed` and `poison`: how often.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// With `speed`: how long each answer of the receiver takes, in milliseconds.
    #[arg(long, default_value_t = 0)]
    answer_ms: u32,
    /// With `away`: how long the receiver is away.
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// With `away`: events a second that are appended all the while.
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// With `away`: what the receiver does with connections meanwhile.
    #[arg(long, value_enum, default_value_t = Refusal::Closed)]
    refuse: Refusal,
    /// With `poison`: aggregates that the events are of.
    #[arg(long, default_value_t = 10_000)]
    aggregates: usize,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) async fn run(args: RelayWebhooksArgs) -> ExitCode {
    let relay = Executable::relay(lab());
    let RelayWebhooksArgs { events, rounds, rate, refuse: refusal, aggregates, .. } = args;
    let figures = match args.scenario {
        Scenario::Speed => {
            let answer = Duration::from_millis(args.answer_ms.into());
            let events = events.unwrap_or(20_000);
            measure_speed(&relay, Speed { events, rounds, answer }).await
        }
        Scenario::Away => {
            measure_away(&relay, Away { seconds: args.seconds.into(), rate, refusal }).await
        }
        Scenario::Poison => {
            let events = events.unwrap_or(50_000);
            measure_poison(&relay, Poison { events, rounds, aggregates }).await
        }
    };
    if save(&figures, args.json.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
