//! Events at a pace for a long time: what each one costs and how long it takes, and whether the end is like the
//! beginning.

use std::collections::BTreeMap;
use std::slice::from_mut;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::interval;
use tokio_postgres::Client;
use xtask::failure::{Explain as _, Outcome};

use crate::candidate::Inbox;
use crate::child::{Child, Worked};
use crate::latency::{self, Sent, blocking, wait_for};
use crate::measure::number_of;
use crate::options::Order;
use crate::plan::{Expected, Plan};
use crate::scenario::Steadily;
use crate::server::{Database, Server, connected};
use crate::topic;

/// How long ours keeps its inbox rows here, where they are pruned meanwhile.
const RETENTION: &str = "1m";
/// How often the database is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Looks of a minute.
const MINUTE: usize = 12;
/// The group forms, and the first backlog is handled.
const SETTLING: usize = 2;

/// A look at the database and at the candidate's process.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// In seconds since 1970.
    at: f64,
    effects: u64,
    /// Processor time so far, in seconds.
    consumer_cpu: f64,
    server_cpu: f64,
    table_mb: f64,
    index_mb: f64,
    lanes_mb: f64,
}

/// Runs a candidate for as long as the plan takes at that pace.
pub(crate) async fn run(
    plan: Plan,
    steadily: Steadily,
    order: Order,
    (server, database, inbox): (&Server, &Database, Inbox),
    expected: &Expected,
) -> Outcome<(Worked, BTreeMap<&'static str, f64>)> {
    let retention = steadily.prunes.then(|| RETENTION.to_owned());
    let topic = format!("{}-topic", order.group);
    let order = Order { topic, records: 0, retention, ..order };
    let (kafka, name) = (order.kafka.clone(), order.topic.clone());
    blocking(move || topic::create(&kafka, &name)).await?;
    let mut child = Child::start(&order)?;
    let sending = order.clone();
    let (pace, all) = (steadily.pace, !steadily.prunes);
    let sender =
        tokio::spawn(async move { latency::send(&sending, plan.deposits(), pace, all).await });
    let looks = watch(steadily.snapshot, (server, database), &child, &sender).await?;
    let sent = sender.await.explain(|| "the sender".to_owned())??;
    let soon = latency::SOON;
    wait_for(from_mut(&mut child), database, inbox, expected.events(), soon).await?;
    child.end();
    let worked = child.said().await?;
    let (kafka, name) = (order.kafka, order.topic);
    blocking(move || topic::delete(&kafka, &name)).await?;
    let looks = looks.get(SETTLING..).unwrap_or_default();
    let mut figures = figures(looks);
    if all {
        let waits = latency::waits(database, inbox, latency::originals(sent)).await?;
        figures.extend(quantiles(&waits, looks));
    }
    Ok((worked, figures))
}

/// Looks at the database until everything is sent. A look after that would count time in which nothing was
/// sent: with 5 s of it the last minute seemed 8 % slower than the first. A snapshot stays open from
/// when it was opened.
async fn watch(
    opened_after: Option<Duration>,
    (server, database): (&Server, &Database),
    child: &Child,
    sender: &tokio::task::JoinHandle<Outcome<Vec<Sent>>>,
) -> Outcome<Vec<Look>> {
    let (start, mut looks, mut next) = (Instant::now(), Vec::new(), interval(LOOK));
    let mut snapshot: Option<Client> = None;
    loop {
        next.tick().await;
        if sender.is_finished() {
            return Ok(looks);
        }
        if snapshot.is_none() && opened_after.is_some_and(|after| start.elapsed() >= after) {
            let client = connected(&database.url).await?;
            let open = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM accounts";
            client.batch_execute(open).await.explain(|| "cannot open a snapshot".to_owned())?;
            snapshot = Some(client);
        }
        let row = database.row(LOOK_AT).await?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        looks.push(Look {
            at,
            effects: u64::try_from(row.get::<_, i64>(0)).unwrap_or_default(),
            consumer_cpu: child.cpu()?.as_secs_f64(),
            server_cpu: server.cpu()?.as_secs_f64(),
            table_mb: row.get(1),
            index_mb: row.get(2),
            lanes_mb: row.get(3),
        });
    }
}

/// The tables of the inbox come with the candidate.
const LOOK_AT: &str = "SELECT (SELECT coalesce(sum(events), 0)::bigint FROM accounts),
    coalesce(pg_table_size(to_regclass('inbox_events')), 0) / 1e6::float8,
    coalesce(pg_indexes_size(to_regclass('inbox_events')), 0) / 1e6::float8,
    coalesce(pg_total_relation_size(to_regclass('inbox_lanes')), 0) / 1e6::float8";

fn first_minute(looks: &[Look]) -> &[Look] {
    &looks[..looks.len().min(MINUTE + 1)]
}

fn last_minute(looks: &[Look]) -> &[Look] {
    &looks[looks.len().saturating_sub(MINUTE + 1)..]
}

fn figures(looks: &[Look]) -> BTreeMap<&'static str, f64> {
    let (first, last) = (first_minute(looks), last_minute(looks));
    let size = |of: &[Look], size: fn(&Look) -> f64| of.iter().map(size).fold(0.0, f64::max);
    let half = &looks[..looks.len() / 2];
    BTreeMap::from([
        ("first minute/s", rate(first, |look| look.at)),
        ("last minute/s", rate(last, |look| look.at)),
        ("PostgreSQL ms, first minute", 1e3 / rate(first, |look| look.server_cpu)),
        ("PostgreSQL ms, last minute", 1e3 / rate(last, |look| look.server_cpu)),
        ("consumer ms, first minute", 1e3 / rate(first, |look| look.consumer_cpu)),
        ("consumer ms, last minute", 1e3 / rate(last, |look| look.consumer_cpu)),
        ("table MB, first half", size(half, |look| look.table_mb)),
        ("table MB, largest", size(looks, |look| look.table_mb)),
        ("indexes MB, largest", size(looks, |look| look.index_mb)),
        ("lanes MB, largest", size(looks, |look| look.lanes_mb)),
    ])
}

/// Effects by what passed meanwhile: time, or processor time.
fn rate(looks: &[Look], passed: fn(&Look) -> f64) -> f64 {
    match (looks.first(), looks.last()) {
        (Some(first), Some(last)) => {
            number_of(last.effects - first.effects) / (passed(last) - passed(first)).max(1e-6)
        }
        _ => f64::NAN,
    }
}

/// How long events took from being sent to their commit: all of them, and those of the first and last minute.
fn quantiles(waits: &[(f64, f64)], looks: &[Look]) -> BTreeMap<&'static str, f64> {
    let of = |looks: &[Look]| {
        let span =
            looks.first().map_or(0.0, |look| look.at)..looks.last().map_or(0.0, |look| look.at);
        let within = waits.iter().filter(|(at, _)| span.contains(at));
        latency::quantiles(within.map(|(_, took)| *took).collect(), [500, 990])
    };
    let [all, first, last] = [looks, first_minute(looks), last_minute(looks)].map(of);
    BTreeMap::from([
        ("p50 ms", all[0]),
        ("p99 ms", all[1]),
        ("p50 ms, first minute", first[0]),
        ("p99 ms, first minute", first[1]),
        ("p50 ms, last minute", last[0]),
        ("p99 ms, last minute", last[1]),
    ])
}
