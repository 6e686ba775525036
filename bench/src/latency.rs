//! How long it takes from sending an event to the commit of its effect, while events come at a pace.

use std::collections::{BTreeMap, HashSet};
use std::slice::from_mut;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;
use xtask::failure::{Explain as _, Outcome, failure};

use crate::candidate::Inbox;
use crate::child::{Child, Worked};
use crate::options::Order;
use crate::plan::{Deposit, Plan};
use crate::server::Database;
use crate::topic;

/// Sent first and waited for: the group has formed, connections are made, statements prepared.
pub(crate) const WARMING: usize = 80;
/// For that, and for what is left of paced events once all are sent.
pub(crate) const SOON: Patience =
    Patience { look: Duration::from_millis(50), longest: Duration::from_mins(1) };
/// Of the paced events the first second's do not count, and of many the first five seconds': a broker, a
/// server and a consumer that have just stood still make a backlog of the first of them.
const SETTLING: Duration = Duration::from_secs(1);
const SETTLING_MANY: Duration = Duration::from_secs(5);

/// Above so many events a second the sender does as senders do: it lets librdkafka gather records for its
/// default of 5 ms, and sleeps by the millisecond. Below, each record goes out alone, at its time.
const ALONE_MAX: u64 = 1_000;
const GRAIN: Duration = Duration::from_millis(1);

/// An event, and when it was sent, in seconds since 1970.
pub(crate) type Sent = (Uuid, f64);

/// How often the database is asked whether events have had their effects, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) look: Duration,
    pub(crate) longest: Duration,
}

/// Runs a candidate on a topic of its own while events are sent; returns when each was.
pub(crate) async fn paced(
    plan: Plan,
    pace: u64,
    order: Order,
    database: &Database,
    inbox: Inbox,
) -> Outcome<(Worked, Vec<Sent>)> {
    let order = Order { topic: format!("{}-topic", order.group), ..order };
    let (kafka, name) = (order.kafka.clone(), order.topic.clone());
    blocking(move || topic::create(&kafka, &name)).await?;
    let mut child = Child::start(&order)?;
    let (warming, rest): (Vec<Deposit>, Vec<Deposit>) = {
        let mut all: Vec<Deposit> = plan.deposits().collect();
        let rest = all.split_off(WARMING.min(all.len()));
        (all, rest)
    };
    send(&order, warming, u64::MAX, false).await?;
    wait_for(from_mut(&mut child), database, inbox, WARMING, SOON).await?;
    let sent = send(&order, rest, pace, true).await?;
    let worked = child.said().await?;
    let (kafka, name) = (order.kafka, order.topic);
    blocking(move || topic::delete(&kafka, &name)).await?;
    let settling = if pace > ALONE_MAX { SETTLING_MANY } else { SETTLING };
    let first = sent.first().map_or(0.0, |(_, at)| *at) + settling.as_secs_f64();
    Ok((worked, originals(sent).filter(|(_, at)| *at >= first).collect()))
}

/// Without second copies, which have no effect of their own; the original was sent before them.
pub(crate) fn originals(sent: Vec<Sent>) -> impl Iterator<Item = Sent> {
    let mut seen = HashSet::new();
    sent.into_iter().filter(move |(id, _)| seen.insert(*id))
}

/// Waits until so many events have had their effects; a process that ends before is a failure.
pub(crate) async fn wait_for(
    children: &mut [Child],
    database: &Database,
    inbox: Inbox,
    wanted: usize,
    patience: Patience,
) -> Outcome {
    if inbox == Inbox::None {
        return failure("without a database there is no commit to wait for");
    }
    let began = Instant::now();
    while began.elapsed() < patience.longest {
        // The table of the accounts is there from the beginning; one's own inbox is not.
        let row = database.row("SELECT coalesce(sum(events), 0)::bigint FROM accounts").await?;
        if usize::try_from(row.get::<_, i64>(0)).is_ok_and(|events| events >= wanted) {
            return Ok(());
        }
        for child in &mut *children {
            if let Some(status) = child.ended()? {
                return failure(format!("a process ended with {status}"));
            }
        }
        tokio::time::sleep(patience.look).await;
    }
    let longest = patience.longest.as_secs();
    failure(format!("after {longest} s not all of {wanted} events have had their effects"))
}

/// Sends at a pace; answers when each was sent, if `is_noted`.
pub(crate) async fn send(
    order: &Order,
    deposits: impl IntoIterator<Item = Deposit, IntoIter: Send> + Send + 'static,
    pace: u64,
    is_noted: bool,
) -> Outcome<Vec<Sent>> {
    let (kafka, name) = (order.kafka.clone(), order.topic.clone());
    blocking(move || {
        let doing = || format!("cannot send to topic {name}");
        let (linger, grain) = match pace {
            0..=ALONE_MAX => ("0", Duration::ZERO),
            _ => ("5", GRAIN),
        };
        let producer = topic::producer(&kafka, linger)?;
        let (start, mut sent) = (Instant::now(), Vec::new());
        for (number, deposit) in (0_u64..).zip(deposits) {
            let due = start + Duration::from_nanos(number.saturating_mul(1_000_000_000 / pace));
            let early = due.saturating_duration_since(Instant::now());
            if early > grain {
                thread::sleep(early);
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            topic::send(&producer, &name, &deposit).explain(doing)?;
            if is_noted {
                sent.push((deposit.id, now.as_secs_f64()));
            }
        }
        topic::flush(&producer, &name)?;
        Ok(sent)
    })
    .await
}

/// Median, 99th percentile and largest, in milliseconds; nothing if nothing was sent.
pub(crate) async fn figures(
    database: &Database,
    inbox: Inbox,
    sent: &[Sent],
) -> Outcome<BTreeMap<&'static str, f64>> {
    if sent.is_empty() {
        return Ok(BTreeMap::new());
    }
    let waits = waits(database, inbox, sent.iter().copied()).await?;
    let took = waits.into_iter().map(|(_, took)| took).collect();
    let [p50, p99, last] = quantiles(took, [500, 990, 1_000]);
    Ok(BTreeMap::from([("p50 ms", p50), ("p99 ms", p99), ("largest ms", last)]))
}

/// When each event was sent, and how many milliseconds later its effect was committed.
pub(crate) async fn waits(
    database: &Database,
    inbox: Inbox,
    sent: impl Iterator<Item = Sent>,
) -> Outcome<Vec<(f64, f64)>> {
    let committed = database.commits(inbox).await?;
    let took = sent.map(|(id, at)| match committed.get(&id) {
        Some(committed) => Ok((at, (committed - at) * 1_000.0)),
        None => failure(format!("event {id} had no effect")),
    });
    took.collect()
}

/// How long that many of a thousand took at most.
pub(crate) fn quantiles<const N: usize>(mut took: Vec<f64>, parts: [usize; N]) -> [f64; N] {
    took.sort_by(f64::total_cmp);
    let last = took.len().saturating_sub(1);
    parts.map(|part| took.get((took.len() * part / 1_000).min(last)).copied().unwrap_or(f64::NAN))
}

/// A call that waits, on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    tokio::task::spawn_blocking(call).await.explain(|| "a call of Kafka".to_owned())?
}
