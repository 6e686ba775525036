//! `cargo xtask relay-webhooks`: how a relay delivers by HTTP.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use xtask::failure::Outcome;

use crate::program;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Scenario {
    /// How many events a second, beside loops written by hand.
    Speed,
    /// A receiver that is away for a while.
    Away,
    /// An event that the receiver never takes, beside all others.
    Poison,
}

/// What a receiver that is away does with connections.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Refusal {
    /// It takes and closes them, so that they can be counted.
    AcceptClose,
    /// Nobody listens.
    Closed,
}

/// What, and how much of it.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// What is measured.
    #[arg(value_enum, default_value_t = Scenario::Speed)]
    scenario: Scenario,
    /// With `speed` and `poison`: events, without 500 that go before the clock starts; 20,000 and 50,000 as it comes.
    #[arg(long)]
    events: Option<u32>,
    /// With `speed` and `poison`: how often.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
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
    aggregates: u32,
    /// Writes what was measured into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// For work on the measurements themselves: what is there already need not be built anew.
    #[arg(long, default_value = "release", hide = true)]
    profile: String,
}

pub(crate) fn run(choice: &Choice) -> Outcome<ExitCode> {
    let Choice { scenario, events, rounds, answer_ms, seconds, rate, refuse, .. } = choice;
    let Choice { aggregates, json, profile, .. } = choice;
    let texts = match scenario {
        Scenario::Speed => {
            let events = events.unwrap_or(20_000);
            ["speed".into(), events.to_string(), rounds.to_string(), answer_ms.to_string()]
        }
        Scenario::Away => {
            let refusal = match refuse {
                Refusal::AcceptClose => "accept-close",
                Refusal::Closed => "closed",
            };
            ["away".into(), seconds.to_string(), rate.to_string(), refusal.into()]
        }
        Scenario::Poison => {
            let events = events.unwrap_or(50_000);
            ["poison".into(), events.to_string(), rounds.to_string(), aggregates.to_string()]
        }
    };
    let mut arguments: Vec<_> = texts.into_iter().map(Into::into).collect();
    arguments.extend(json.iter().map(Into::into));
    program::run_as(profile, "relay_webhooks", arguments)
}
