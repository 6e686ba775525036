//! Relays that are killed and frozen while producers commit out of order, and a checker that reads the
//! topic and the business table alone. The database fails over, is restored and has its clock set, and rows
//! name topics that are created later.

mod check;
mod database;
mod fault;
mod fleet;
pub mod http;
mod missing;
mod producers;
mod report;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use service_kit::Random;

use crate::{Executable, Outbox, Services, Topic, arrivals, copies};
use check::{Evidence, Seen};
use database::Database;
pub(crate) use fault::FaultTime;
pub use fault::Kind;
use fault::Wake;
use fleet::Fleet;
use producers::Producers;
pub use report::{Plan, Report};

const PARTITIONS: i32 = 6;
const AGGREGATES: i64 = 40;
const LEASE: Duration = Duration::from_secs(2);
/// Nothing sent for so long after a fault means standing still, and ends the run.
const STILL_MAX: Duration = Duration::from_secs(60);
/// What a fault may cost besides the lease, on a machine that does other things, too.
const MARGIN: Duration = Duration::from_secs(10);
/// The broker's time of each record is compared with that of the faults.
const BY_THE_BROKER: [(&str, &str); 1] = [("message.timestamp.type", "LogAppendTime")];

/// A run, as far as it has come.
struct Run {
    outbox: Outbox,
    database: Database,
    fleet: Fleet,
    dice: Dice,
    /// What is still to come, in no order.
    left: Vec<Kind>,
    /// What was, in its order.
    faults: Vec<FaultTime>,
    /// Relays that woke without a turn.
    wakes: Vec<Wake>,
    /// The longest pause after each kind of fault.
    longest: BTreeMap<Kind, Duration>,
    /// The longest time without a database.
    away: Duration,
    /// The topics that were missing for a while, and how that went.
    missing: missing::Tally,
    violations: Vec<String>,
}

/// Runs it: faults come in a random order.
pub async fn chaos(relay: &Executable, plan: Plan, seed: u64) -> Report {
    let began = Instant::now();
    let services = Services::from_env();
    let topic = Topic::create(&services.kafka, "chaos", PARTITIONS, &BY_THE_BROKER).await;
    let database = Database::start().await;
    let mut outbox = Outbox::with(topic, database.schema().await).await;
    outbox.config.relay.lease = LEASE;
    // One works and two stand by, or all share the work, which they may not where a database goes back.
    let goes_back = plan.failovers + plan.restores > 0;
    outbox.config.relay.shared = !seed.is_multiple_of(2) && !goes_back;
    outbox.config.batch.events_max = 100;
    database::prepare(&outbox).await;
    let producers = Producers::start(&outbox, AGGREGATES, seed).await;
    let program = relay.clone();
    let fleet = Fleet::start(&outbox, Box::new(move |outbox, _| outbox.spawn(&program)));
    let mut run = Run::new(outbox, database, fleet, plan.kinds(), seed);
    run.play(began).await;
    let written = producers.stop().await;
    run.drain().await;
    // A frozen relay that woke may still try.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (seen, turns) = (run.seen().await, run.turn().await);
    let Run { outbox, database, fleet, faults, longest, away, missing, mut violations, .. } = run;
    let kept = check::kept(&outbox).await;
    let evidence = Evidence {
        main: outbox.topic.name(),
        seen: &seen,
        faults: &faults,
        never_committed: &written.never_committed,
    };
    let verdict = check::check(&kept, &evidence);
    violations.extend(verdict.violations);
    let report = Report {
        events: kept.rows.len(),
        rolled_back: written.rolled_back,
        broken_transactions: written.broken,
        long_transactions: written.long,
        kills: plan.kills,
        freezes: plan.freezes,
        failovers: plan.failovers,
        restores: plan.restores,
        clock_steps: plan.clock_steps,
        missing_topics: plan.missing_topics,
        committed_then_lost: kept.lacks(&written.committed),
        sent_then_lost: verdict.sent_then_lost,
        numbers_sent_twice: verdict.numbers_sent_twice,
        faults_with_copies: verdict.faults_with_copies,
        copies: seen.iter().map(|seen| copies(&seen.arrivals)).sum(),
        turns,
        relays_started_again: fleet.started_again(),
        topics_created_late: missing.topics.len(),
        rows_of_missing_topics: missing.rows,
        longest_pause_of_others_seconds: missing.others.as_secs_f64(),
        longest_wait_for_created_topic_seconds: missing.created.as_secs_f64(),
        longest_pause_seconds: longest.values().max().map_or(0.0, Duration::as_secs_f64),
        longest_pause_by_fault: longest.iter().map(|(k, time)| (*k, time.as_secs_f64())).collect(),
        longest_time_without_database_seconds: away.as_secs_f64(),
        seconds: began.elapsed().as_secs_f64(),
        violations,
    };
    // The relays first, the database last: the schema goes with its server.
    drop((fleet, database));
    report
}

impl Run {
    fn new(outbox: Outbox, database: Database, fleet: Fleet, faults: Vec<Kind>, seed: u64) -> Self {
        Self {
            outbox,
            database,
            fleet,
            dice: Dice(Random::new(seed)),
            left: faults,
            faults: Vec::new(),
            wakes: Vec::new(),
            longest: BTreeMap::new(),
            away: Duration::ZERO,
            missing: missing::Tally::default(),
            violations: Vec::new(),
        }
    }

    /// All faults, each at some moment of the relay's work.
    async fn play(&mut self, began: Instant) {
        let all = self.left.len();
        self.moved(0).await;
        while !self.left.is_empty() {
            tokio::time::sleep(Duration::from_millis(50 + self.dice.below(400))).await;
            let before = self.left.len();
            self.next_fault().await;
            if (all - before) / 10 != (all - self.left.len()) / 10 {
                println!("{} of {all} faults, {:.0?}", all - self.left.len(), began.elapsed());
            }
        }
    }

    /// Takes one of what is left.
    async fn next_fault(&mut self) {
        let at = self.dice.below(self.left.len() as u64);
        let kind = self.left.swap_remove(usize::try_from(at).unwrap_or(0));
        match kind {
            Kind::Kill => self.kill().await,
            Kind::Freeze => self.freeze().await,
            Kind::Failover => self.fail_over().await,
            Kind::Restore => self.restore().await,
            Kind::ClockStep => self.step_clock().await,
            Kind::MissingTopics => self.miss_topics().await,
        }
    }

    /// Waits until a row is marked as sent later than `before`.
    async fn moved(&mut self, before: i64) {
        let since = Instant::now();
        while database::last_sent(&self.outbox).await <= before {
            assert!(
                since.elapsed() < STILL_MAX,
                "the outbox stands still: {:?}",
                self.faults.last()
            );
            self.fleet.revive(&self.outbox);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no row waits; what waits for ever is for the checker to tell.
    async fn drain(&mut self) {
        let since = Instant::now();
        while database::number(&self.outbox, database::UNSENT).await > 0 {
            self.fleet.revive(&self.outbox);
            if since.elapsed() > STILL_MAX {
                self.violations.push("the outbox is not drained in the end".to_owned());
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Everything that is in the topics.
    async fn seen(&self) -> Vec<Seen> {
        let kafka = self.outbox.topic.bootstrap();
        let mut all = Vec::new();
        for topic in std::iter::once(&self.outbox.topic).chain(&self.missing.topics) {
            let arrivals = arrivals(kafka, topic.name(), topic.partitions()).await;
            all.push(Seen { topic: topic.name().to_owned(), arrivals });
        }
        all
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_millis()).expect("a clock before the year 292 million")
}

/// Numbers that look random and come again with their seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) Random);

impl Dice {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end.max(1))
    }

    /// A time between two.
    fn time(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_millis(from_ms + self.below(to_ms - from_ms))
    }
}
