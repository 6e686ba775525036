//! Events at a pace for a long time, with a short retention: whether the end is like the beginning.

use std::collections::BTreeMap;
use std::slice::from_mut;
use std::thread;
use std::time::{Duration, Instant};

use tokio::time::interval;
use xtask::failure::{Explain as _, Outcome};

use crate::candidate::Inbox;
use crate::child::{Child, Worked};
use crate::latency::{SOON, blocking, wait_for};
use crate::measure::number_of;
use crate::options::Order;
use crate::plan::{Expected, Plan};
use crate::server::Database;
use crate::topic;

/// How long ours keeps its inbox rows here.
const RETENTION: &str = "1m";
/// How often the database is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Looks of a minute.
const MINUTE: usize = 12;
/// The group forms, and the first backlog is handled.
const SETTLING: usize = 2;

/// A look at the database.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at: f64,
    effects: u64,
    table_mb: f64,
    index_mb: f64,
}

/// Runs a candidate for as long as the plan takes at that pace.
pub(crate) async fn run(
    plan: Plan,
    pace: u64,
    order: Order,
    database: &Database,
    expected: &Expected,
) -> Outcome<(Worked, BTreeMap<&'static str, f64>)> {
    let retention = Some(RETENTION.to_owned());
    let topic = format!("{}-topic", order.group);
    let order = Order { topic, records: 0, retention, ..order };
    let (kafka, name) = (order.kafka.clone(), order.topic.clone());
    blocking(move || topic::create(&kafka, &name)).await?;
    let mut child = Child::start(&order)?;
    let (kafka, name) = (order.kafka.clone(), order.topic.clone());
    let sender = tokio::spawn(blocking(move || send(&kafka, &name, plan, pace)));
    let looks = watch(database, &sender).await?;
    sender.await.explain(|| "the sender".to_owned())??;
    wait_for(from_mut(&mut child), database, Inbox::Ours, expected.events(), SOON).await?;
    child.end();
    let worked = child.said().await?;
    let (kafka, name) = (order.kafka, order.topic);
    blocking(move || topic::delete(&kafka, &name)).await?;
    Ok((worked, figures(&looks)))
}

fn send(kafka: &str, name: &str, plan: Plan, pace: u64) -> Outcome {
    let producer = topic::producer(kafka, "5")?;
    let start = Instant::now();
    for (number, deposit) in (0_u64..).zip(plan.deposits()) {
        let due = start + Duration::from_nanos(number.saturating_mul(1_000_000_000 / pace));
        let early = due.saturating_duration_since(Instant::now());
        // A sleep for each would cost more than the sending.
        if early > Duration::from_millis(2) {
            thread::sleep(early);
        }
        topic::send(&producer, name, &deposit)
            .explain(|| format!("cannot send to topic {name}"))?;
    }
    topic::flush(&producer, name)
}

/// Looks at the database until everything is sent. A look after that would count time in which nothing was
/// sent: with 5 s of it the last minute seemed 8 % slower than the first.
async fn watch(
    database: &Database,
    sender: &tokio::task::JoinHandle<Outcome>,
) -> Outcome<Vec<Look>> {
    let (start, mut looks, mut next) = (Instant::now(), Vec::new(), interval(LOOK));
    loop {
        next.tick().await;
        if sender.is_finished() {
            return Ok(looks);
        }
        let row = database.row(LOOK_AT).await?;
        let effects = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
        let at = start.elapsed().as_secs_f64();
        looks.push(Look { at, effects, table_mb: row.get(1), index_mb: row.get(2) });
    }
}

/// The table of the inbox comes with the candidate.
const LOOK_AT: &str = "SELECT (SELECT coalesce(sum(events), 0)::bigint FROM accounts),
    coalesce(pg_table_size(to_regclass('inbox_events')), 0) / 1e6::float8,
    coalesce(pg_indexes_size(to_regclass('inbox_events')), 0) / 1e6::float8";

fn figures(looks: &[Look]) -> BTreeMap<&'static str, f64> {
    let looks = looks.get(SETTLING..).unwrap_or_default();
    let rate = |of: &[Look]| match (of.first(), of.last()) {
        (Some(first), Some(last)) => {
            number_of(last.effects - first.effects) / (last.at - first.at).max(1e-6)
        }
        _ => f64::NAN,
    };
    let first = &looks[..looks.len().min(MINUTE + 1)];
    let last = &looks[looks.len().saturating_sub(MINUTE + 1)..];
    let size = |of: &[Look], size: fn(&Look) -> f64| of.iter().map(size).fold(0.0, f64::max);
    let half = &looks[..looks.len() / 2];
    BTreeMap::from([
        ("first minute/s", rate(first)),
        ("last minute/s", rate(last)),
        ("table MB, first half", size(half, |look| look.table_mb)),
        ("table MB, largest", size(looks, |look| look.table_mb)),
        ("indexes MB, first half", size(half, |look| look.index_mb)),
        ("indexes MB, largest", size(looks, |look| look.index_mb)),
    ])
}
