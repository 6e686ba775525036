//! How many events a second an intake takes, beside a receiver that is written by hand.
//!
//! One story: its files know each other.

mod by_hand;
mod load;
mod ours;

use std::{fmt, time::Duration};

use tokio::task::JoinSet;
use xtask::usage;

use crate::{Ratio, Schema, Services, Spread};
use load::Load;
pub use ours::Way;

/// What both write: the account's balance.
const UPSERT: &str = "INSERT INTO accounts AS a (account, balance, events) VALUES ($1, $2, 1)
    ON CONFLICT (account) DO UPDATE SET balance = a.balance + excluded.balance, events = a.events + 1";

const TABLES: &str = "CREATE TABLE accounts (account bigint PRIMARY KEY, balance bigint NOT NULL, events bigint NOT NULL);
    CREATE TABLE inbox (event_id uuid PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now())";

/// Between the end of one and the beginning of the next.
const REST: Duration = Duration::from_millis(500);

/// What is sent, and how.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Events of each round, of each receiver.
    pub events: usize,
    /// Rounds.
    pub rounds: usize,
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// Events of a request.
    pub per_request: usize,
    /// Events a second that are sent; without it as many as are answered.
    pub rate: Option<u32>,
    /// How our handler writes.
    pub way: Way,
    /// So long PostgreSQL holds up each COMMIT, as a slow disk does; 100 ms at most.
    pub commit_delay: Duration,
}

impl Course {
    /// The URL of a schema, for connections with the delay.
    fn url(&self, schema: &Schema) -> String {
        let delay = self.commit_delay.as_micros();
        // Its last part has the options of a connection.
        let url = schema.url();
        format!("{url}%20-c%20commit_siblings%3D0%20-c%20commit_delay%3D{delay}")
    }
}

/// What was measured, in events a second.
#[derive(Debug)]
pub struct Report {
    /// Ours.
    pub ours: Spread,
    /// The one written by hand.
    pub by_hand: Spread,
    /// Ours by that, pair by pair.
    pub ratio: Ratio,
    /// How long requests took, ours and theirs, all rounds together.
    pub waits: [Waits; 2],
    /// Processor time of an event, ours and theirs, all rounds together.
    pub used: [Used; 2],
}

/// Processor time of an event, in milliseconds.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Used {
    /// PostgreSQL's.
    pub database: f64,
    /// That of this process: the receiver's and the sender's, of which the latter is the same for both receivers.
    pub process: f64,
}

impl Used {
    /// So far, of all events.
    async fn so_far(schema: &Schema) -> Self {
        let backend = schema.number("SELECT pg_backend_pid()::bigint").await;
        let server = usage::parent(u32::try_from(backend).expect("the id of a process"));
        let server = server.and_then(usage::family_cpu).expect("PostgreSQL runs on this machine");
        let own = usage::own_cpu().expect("this process runs");
        Self { database: server.as_secs_f64() * 1e3, process: own.as_secs_f64() * 1e3 }
    }

    fn add_since(&mut self, earlier: Self, later: Self) {
        self.database += later.database - earlier.database;
        self.process += later.process - earlier.process;
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn of_each(self, events: usize) -> Self {
        Self { database: self.database / events as f64, process: self.process / events as f64 }
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {:.3} ms, receiver and sender {:.3} ms", self.database, self.process)
    }
}

/// How long requests took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Half of them took no longer.
    pub p50: Duration,
    /// All but one in a hundred.
    pub p99: Duration,
}

impl Waits {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
        Self { p50: at(50), p99: at(99) }
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99] = [self.p50, self.p99].map(|wait| wait.as_secs_f64() * 1000.0);
        write!(f, "p50 {p50:.1} ms, p99 {p99:.1} ms")
    }
}

/// Measures.
///
/// # Panics
/// When an event is lost or doubled.
pub async fn measure(course: Course) -> Report {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut waits = [Vec::new(), Vec::new()];
    let mut used = [Used::default(); 2];
    for round in 0..course.rounds {
        // Who begins takes turns, too.
        for turn in [round % 2 == 0, round % 2 == 1] {
            let (rate, mut took) = one(course, turn, &mut used[usize::from(!turn)]).await;
            let rates = if turn { &mut ours } else { &mut theirs };
            rates.push(rate);
            waits[usize::from(!turn)].append(&mut took);
            tokio::time::sleep(REST).await;
        }
    }
    let ratio = Ratio::of(&ours, &theirs).expect("a round at least");
    let waits = waits.map(Waits::of);
    let used = used.map(|used| used.of_each(course.events * course.rounds));
    Report { ours: Spread::of(&ours), by_hand: Spread::of(&theirs), ratio, waits, used }
}

/// One round of one receiver: events a second, and how long each request took.
async fn one(course: Course, is_ours: bool, used: &mut Used) -> (f64, Vec<Duration>) {
    let schema = Services::from_env().schema().await;
    schema.run(TABLES).await;
    let load = Load::of(course);
    let mut served = JoinSet::new();
    let address = if is_ours {
        ours::serve(&course.url(&schema), course, &mut served).await
    } else {
        by_hand::serve(&course.url(&schema), course.connections, &mut served).await
    };
    let earlier = Used::so_far(&schema).await;
    let (took, waits) = load.send(address).await;
    used.add_since(earlier, Used::so_far(&schema).await);
    check(&schema, course.events).await;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = course.events as f64 / took.as_secs_f64();
    (rate, waits)
}

async fn check(schema: &Schema, events: usize) {
    let events = i64::try_from(events).expect("not so many");
    assert_eq!(schema.number("SELECT sum(events)::bigint FROM accounts").await, events);
    let sum = schema.number("SELECT sum(balance)::bigint FROM accounts").await;
    assert_eq!(sum, events * (events + 1) / 2);
}
