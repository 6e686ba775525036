//! Relays that are killed and frozen while producers commit out of order, and a checker that reads the
//! topic and the business table alone.

mod check;
mod fleet;
mod producers;

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use crate::{Outbox, Services, Topic, copies};
use fleet::Fleet;
use producers::Producers;

const PARTITIONS: i32 = 6;
const AGGREGATES: i64 = 40;
const LEASE: Duration = Duration::from_secs(2);
/// Nothing sent for so long after a fault means standing still.
const STILL_MAX: Duration = Duration::from_secs(60);

/// What the run measured.
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
    /// Faults after which some events were in the topic twice.
    pub faults_with_copies: usize,
    /// Records in the topic that are copies of earlier ones.
    pub copies: usize,
    /// Turns that relays took.
    pub turns: i64,
    /// The longest time from a fault until the outbox moved again, in seconds.
    pub longest_pause_seconds: f64,
    /// All of it, in seconds.
    pub seconds: f64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// One fault, and when it was, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultTime {
    /// Just before.
    pub(crate) began_ms: i64,
    /// When the outbox moved again.
    pub(crate) moved_ms: i64,
}

/// Runs it: `relay` is the program, faults come in a random order.
pub async fn chaos(relay: &Path, kills: u32, freezes: u32, seed: u64) -> Report {
    let began = Instant::now();
    let services = Services::from_env();
    let settings = [("message.timestamp.type", "LogAppendTime")];
    let topic = Topic::create(&services.kafka, "chaos", PARTITIONS, &settings).await;
    let mut outbox = Outbox::with(topic, services.schema().await).await;
    outbox.config.relay.lease = LEASE;
    outbox.config.batch.events_max = 100;
    let producers = Producers::start(&outbox, AGGREGATES, seed).await;
    let mut fleet = Fleet::start(&outbox, relay);
    let mut dice = Dice(seed | 1);
    let (mut left_kills, mut left_freezes) = (kills, freezes);
    let mut faults = Vec::new();
    let mut longest = Duration::ZERO;
    moved(&outbox, 0).await;
    while left_kills + left_freezes > 0 {
        // Some moment of its work.
        tokio::time::sleep(Duration::from_millis(50 + dice.below(400))).await;
        let kill = dice.below(u64::from(left_kills + left_freezes)) < u64::from(left_kills);
        let (began_ms, since) = (now_ms(), Instant::now());
        let before = if kill {
            left_kills -= 1;
            fleet.kill_active(&outbox).await
        } else {
            left_freezes -= 1;
            fleet.freeze_active(&outbox, LEASE).await
        };
        moved(&outbox, before).await;
        longest = longest.max(since.elapsed());
        faults.push(FaultTime { began_ms, moved_ms: now_ms() });
        let done = kills + freezes - left_kills - left_freezes;
        if done.is_multiple_of(10) {
            println!("{done} of {} faults, {before} events sent", kills + freezes);
        }
    }
    let tally = producers.stop().await;
    outbox.drained(STILL_MAX).await;
    // A frozen relay that woke may still try.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let arrivals = outbox.arrivals().await;
    let verdict = check::check(&outbox, &arrivals, &faults).await;
    Report {
        events: verdict.events,
        rolled_back: tally.rolled_back,
        long_transactions: tally.long,
        kills,
        freezes,
        faults_with_copies: verdict.faults_with_copies,
        copies: copies(&arrivals),
        turns: outbox.schema.number("SELECT epoch FROM outbox_relays").await,
        longest_pause_seconds: longest.as_secs_f64(),
        seconds: began.elapsed().as_secs_f64(),
        violations: verdict.violations,
    }
}

/// Waits until more rows are sent than before.
async fn moved(outbox: &Outbox, before: i64) {
    crate::eventually(STILL_MAX, "the outbox moves again", async || {
        fleet::sent(outbox).await > before
    })
    .await;
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_millis()).expect("a clock before the year 292 million")
}

/// Numbers that look random and come again with their seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}
