//! The process of one candidate: handles every record of the topic, says what it took, ends.

mod ending;
mod kafka;
mod limits;
mod loops;
mod ours;
mod ours_sqlite;
mod outbox;
mod outbox_limit;
mod record;
mod settle;
mod sqlite;
mod sqlite_sqlx;
mod sums;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xtask::failure::{Explain as _, Outcome, failure};
use xtask::usage;

use crate::candidate::Candidate;
use crate::child::Worked;
use crate::options::Order;

/// The upsert of one deposit: account, amount, sequence. `disorder` counts what does not follow.
const UPSERT: &str = "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    VALUES ($1, $2, 1, $3, 0)
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + 1,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + (excluded.last_sequence <> a.last_sequence + 1)::int";

/// The upsert of many accounts at once, summed up before: account, balance, events, last sequence, disorder
/// among them. What does not follow the row that is there counts, too.
const UPSERT_SUMS: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + excluded.events,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + excluded.disorder
            + (excluded.last_sequence - excluded.events <> a.last_sequence)::int";

/// From the first record to the last one settled.
#[derive(Clone, Copy, Debug)]
struct Times {
    began: SystemTime,
    ended: SystemTime,
}

/// Works as ordered and prints one line about it.
#[expect(clippy::print_stdout, reason = "the bench reads it")]
pub(crate) async fn run(order: Order) -> Outcome {
    let times = match order.candidate {
        Candidate::Kafka => kafka::run(order).await?,
        Candidate::Loop | Candidate::LoopPartitions => loops::run(order).await?,
        Candidate::LimitTx
        | Candidate::LimitAwaited
        | Candidate::LimitPipelined
        | Candidate::LimitSet
            if order.database.starts_with("sqlite:") =>
        {
            sqlite::run(order).await?
        }
        Candidate::LimitTx
        | Candidate::LimitAwaited
        | Candidate::LimitPipelined
        | Candidate::LimitSet => limits::run(order).await?,
        Candidate::LimitSqlx | Candidate::LimitSqlxSet => sqlite::run(order).await?,
        Candidate::Handler
        | Candidate::Queued
        | Candidate::Batch
        | Candidate::Careful
        | Candidate::SqlEach
        | Candidate::SqlRun => ours::run(order).await?,
        Candidate::OutboxSleep | Candidate::OutboxLoop => return outbox::run(order).await,
        Candidate::LimitOutbox => return outbox_limit::run(order).await,
        Candidate::Relay
        | Candidate::RelayUnfenced
        | Candidate::Debezium
        | Candidate::DebeziumPrompt => {
            return failure("this candidate is a program of its own");
        }
    };
    let worked = Worked {
        began: seconds(times.began),
        ended: seconds(times.ended),
        cpu_s: usage::own_cpu()?.as_secs_f64(),
        memory: usage::own_peak_memory()?,
    };
    let line = serde_json::to_string(&worked).explain(|| "what this process says".to_owned())?;
    println!("{line}");
    Ok(())
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}
