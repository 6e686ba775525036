//! How many events a second an intake takes, beside a receiver that is written by hand.
//!
//! One story: its files know each other.

mod by_hand;
mod load;
mod ours;

use std::time::Duration;

use tokio::task::JoinSet;

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
    /// How our handler writes.
    pub way: Way,
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
}

/// Measures.
///
/// # Panics
/// When an event is lost or doubled.
pub async fn measure(course: Course) -> Report {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..course.rounds {
        // Who begins takes turns, too.
        for turn in [round % 2 == 0, round % 2 == 1] {
            let rates = if turn { &mut ours } else { &mut theirs };
            rates.push(one(course, turn).await);
            tokio::time::sleep(REST).await;
        }
    }
    let ratio = Ratio::of(&ours, &theirs).expect("a round at least");
    Report { ours: Spread::of(&ours), by_hand: Spread::of(&theirs), ratio }
}

async fn one(course: Course, is_ours: bool) -> f64 {
    let schema = Services::from_env().schema().await;
    schema.run(TABLES).await;
    let load = Load::of(course);
    let mut served = JoinSet::new();
    let address = if is_ours {
        ours::serve(&schema, course, &mut served).await
    } else {
        by_hand::serve(&schema, course.connections, &mut served).await
    };
    let took = load.send(address).await;
    check(&schema, course.events).await;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = course.events as f64 / took.as_secs_f64();
    rate
}

async fn check(schema: &Schema, events: usize) {
    let events = i64::try_from(events).expect("not so many");
    assert_eq!(schema.number("SELECT sum(events)::bigint FROM accounts").await, events);
    let sum = schema.number("SELECT sum(balance)::bigint FROM accounts").await;
    assert_eq!(sum, events * (events + 1) / 2);
}
