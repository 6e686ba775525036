//! The same for an HTTP destination: relays that are killed and frozen, a receiver that answers whatever receivers
//! answer, a network that fails between them, and a checker that reads what the receiver was sent.

mod check;
mod network;
mod person;
mod receiver;
mod relays;
mod script;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::Serialize;
use service_kit::Random;

use super::{Database, Dice, Fleet, Kind, LEASE, Producers, Run, database};
use crate::{Executable, Outbox, Topic};
use check::Evidence;
use network::Network;
use person::Person;
use receiver::Receiver;
pub use {network::Kind as TroubleKind, script::Answer};

const AGGREGATES: i64 = 500;
/// The longest wait for as many events as were asked for.
const EVENTS_WAIT: Duration = Duration::from_mins(20);

/// What a run is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// `kill -9`s of the active relay.
    pub kills: u32,
    /// Freezes of the active relay past its lease.
    pub freezes: u32,
    /// Events, at least.
    pub events: u32,
}

/// What a run measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Events that were committed.
    pub events: usize,
    /// Transactions of producers that were rolled back.
    pub rolled_back: u64,
    /// Transactions that stayed open for a second or longer.
    pub long_transactions: u64,
    /// `kill -9`s of the active relay.
    pub kills: u32,
    /// Freezes of the active relay past its lease.
    pub freezes: u32,
    /// Freezes after which another relay had the turn all the time.
    pub wakes_without_turn: usize,
    /// Calls that came whole.
    pub requests: usize,
    /// Calls of which the connection broke before they were whole.
    pub broken_requests: u64,
    /// What they were answered.
    pub answers: BTreeMap<Answer, usize>,
    /// What was wrong with the network, and how often.
    pub network_troubles: BTreeMap<TroubleKind, usize>,
    /// Acceptances of events that were accepted before.
    pub copies: usize,
    /// Rows that needed another attempt.
    pub rows_tried_again: i64,
    /// Parked rows that a person retried.
    pub retries_by_hand: u64,
    /// The most attempts of a row that failed.
    pub attempts_max: i64,
    /// The number of the last turn.
    pub turns: i64,
    /// Relays that ended by themselves, and were started again as a service manager does.
    pub relays_started_again: u32,
    /// The longest time from a fault until the outbox moved again, in seconds.
    pub longest_pause_seconds: f64,
    /// The same for each kind of fault.
    pub longest_pause_by_fault: BTreeMap<Kind, f64>,
    /// All of it, in seconds.
    pub seconds: f64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// Runs it: faults come in a random order.
pub async fn chaos(relay: &Executable, plan: Plan, seed: u64) -> Report {
    let began = Instant::now();
    let dice = |of: u64| Dice(Random::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ of));
    let database = Database::start().await;
    // Nobody reaches this Kafka: no route leads there.
    let topic = Topic::planned("127.0.0.1:1", "nowhere", 1, &[]);
    let mut outbox = Outbox::with(topic, database.schema().await).await;
    outbox.config.relay.lease = LEASE;
    // One works and two stand by, or all share the work.
    outbox.config.relay.shared = !seed.is_multiple_of(2);
    outbox.config.batch.events_max = 100;
    database::prepare(&outbox).await;
    outbox.record_attempts().await;
    let receiver = Receiver::start(dice(1)).await;
    let mut network = Network::start(&receiver.address.to_string(), dice(2)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let launch = relays::launch(relay, folder.path(), &network.address());
    let producers = Producers::start(&outbox, AGGREGATES, seed).await;
    let fleet = Fleet::start(&outbox, launch);
    let person = Person::start(relay, &outbox);
    let faults = [(Kind::Kill, plan.kills), (Kind::Freeze, plan.freezes)];
    let faults = faults.iter().flat_map(|(kind, count)| (0..*count).map(|_| *kind)).collect();
    let mut run = Run::new(outbox, database, fleet, faults, seed);
    run.play(began).await;
    run.written(i64::from(plan.events)).await;
    let written = producers.stop().await;
    let troubles = network.calm().await;
    run.drain().await;
    let retries = person.stop();
    // A frozen relay that woke may still try.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let turns = run.turn().await;
    let rows_tried_again =
        database::number(&run.outbox, "SELECT count(*) FROM recorded_attempts").await;
    let attempts_max = run.outbox.attempts_max("").await;
    let Run { outbox, database, fleet, faults, wakes, longest, mut violations, .. } = run;
    let kept = super::check::kept(&outbox).await;
    let log = receiver.take_log();
    let evidence = Evidence {
        calls: &log.calls,
        faults: &faults,
        wakes: &wakes,
        troubles: &troubles,
        never_committed: &written.never_committed,
        committed: &written.committed,
    };
    violations.extend(log.wrong.into_iter().take(super::check::LISTED_MAX));
    violations.extend(check::check(&kept, &evidence));
    let report = Report {
        events: kept.rows.len(),
        rolled_back: written.rolled_back,
        long_transactions: written.long,
        kills: plan.kills,
        freezes: plan.freezes,
        wakes_without_turn: wakes.len(),
        requests: log.calls.len(),
        broken_requests: log.broken,
        answers: counted(log.calls.iter().map(|call| call.answer)),
        network_troubles: counted(troubles.iter().map(|trouble| trouble.kind)),
        copies: check::copies(&log.calls),
        rows_tried_again,
        retries_by_hand: retries,
        attempts_max,
        turns,
        relays_started_again: fleet.started_again(),
        longest_pause_seconds: longest.values().max().map_or(0.0, Duration::as_secs_f64),
        longest_pause_by_fault: longest.iter().map(|(k, time)| (*k, time.as_secs_f64())).collect(),
        seconds: began.elapsed().as_secs_f64(),
        violations,
    };
    // The relays first, the database last: the schema goes with its server.
    drop((fleet, receiver, database));
    report
}

impl Run {
    /// Waits until so many events were committed.
    async fn written(&mut self, events: i64) {
        let since = Instant::now();
        let count = "SELECT count(*) FROM outbox_events";
        while database::number(&self.outbox, count).await < events {
            self.fleet.revive(&self.outbox);
            if since.elapsed() > EVENTS_WAIT {
                self.violations.push(format!("there are no {events} events in the end"));
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn counted<K: Ord>(all: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}
