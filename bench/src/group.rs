//! Members of a group come, leave, are killed and come back while events arrive at a pace: how long
//! partitions stand, and how far the offsets in Kafka are behind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::slice::from_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{Offset, TopicPartitionList};
use uuid::Uuid;
use xtask::failure::{Explain as _, Outcome, failure};

use crate::candidate::Inbox;
use crate::child::{Child, Worked};
use crate::latency::{SOON, Sent, WARMING, blocking, send, wait_for};
use crate::options::Order;
use crate::plan::{Deposit, PARTITIONS, Plan};
use crate::server::Database;
use crate::topic;

/// What happens to the second member, and how long its consequences are watched.
const STEPS: [(Step, u64); 5] = [
    (Step::Calm, 12),
    (Step::Join, 12),
    (Step::Leave, 12),
    (Step::Return, 14),
    // The session timeout of ours, 45 s by default, and what comes after it.
    (Step::Kill, 60),
];
/// Static membership: who comes back under this id is the same member.
const INSTANCE: &str = "bench-second";
/// How often the offsets are looked at.
const SAMPLE: Duration = Duration::from_millis(50);
/// How long a rebalance may have to do with what is seen.
const REBALANCING: f64 = 7.0;
/// Seconds within which an event has its effect when nothing happens.
const USUAL: f64 = 1.0;
/// Half of the partitions are the second member's.
const MOVED: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// One member.
    Calm,
    /// A second one comes.
    Join,
    /// It leaves as it should, and one with an instance id takes its place.
    Leave,
    /// That one is killed and is started again at once.
    Return,
    /// It is killed and stays away.
    Kill,
}

/// When each step began.
type Began = Vec<(Step, f64)>;

/// A look at Kafka: when it was answered, the partition, the committed offset.
type Sample = (f64, usize, usize);

/// How many records it takes.
pub(crate) fn records(pace: u64) -> u64 {
    STEPS.iter().map(|(_, seconds)| seconds).sum::<u64>() * pace
}

/// Runs members of a candidate; returns what the first one says, and the figures.
pub(crate) async fn run(
    plan: Plan,
    pace: u64,
    order: Order,
    database: &Database,
    inbox: Inbox,
) -> Outcome<(Worked, BTreeMap<&'static str, f64>)> {
    let order = Order { topic: format!("{}-topic", order.group), records: 0, ..order };
    let (kafka, name) = (order.kafka.clone(), order.topic.clone());
    blocking(move || topic::create(&kafka, &name)).await?;
    let mut all: Vec<Deposit> = plan.deposits().collect();
    let rest = all.split_off(WARMING.min(all.len()));
    let mut first = Child::start(&order)?;
    let mut sent = send(&order, all, u64::MAX, true).await?;
    wait_for(from_mut(&mut first), database, inbox, sent.len(), SOON).await?;

    let stop = Arc::new(AtomicBool::new(false));
    let (looking, stopped) = (order.clone(), Arc::clone(&stop));
    let looks = tokio::task::spawn_blocking(move || look(&looking, &stopped));
    let (sending, records) = (order.clone(), rest);
    let sender = tokio::spawn(async move { send(&sending, records, pace, true).await });
    let began = walk(&order).await?;
    sent.extend(sender.await.explain(|| "the sender".to_owned())??);
    stop.store(true, Relaxed);
    let samples = looks.await.explain(|| "the looks at the offsets".to_owned())??;
    wait_for(from_mut(&mut first), database, inbox, plan.expected().events(), SOON).await?;
    first.end();
    let worked = first.said().await?;
    let (kafka, name) = (order.kafka, order.topic);
    blocking(move || topic::delete(&kafka, &name)).await?;
    let records = Records::of(plan, &sent, &database.commits(inbox).await?)?;
    Ok((worked, records.figures(&began, &samples)))
}

/// Does to the second member what the steps say.
async fn walk(order: &Order) -> Outcome<Began> {
    let named = Order { instance: Some(INSTANCE.to_owned()), ..order.clone() };
    let mut began = Vec::new();
    let mut second: Option<Child> = None;
    for (step, seconds) in STEPS {
        began.push((step, now()));
        let before = second.take();
        second = match (step, before) {
            (Step::Calm, _) => None,
            (Step::Join, _) => Some(Child::start(order)?),
            (Step::Leave, Some(mut member)) => {
                member.end();
                member.said().await?;
                tokio::time::sleep(Duration::from_secs(seconds / 2)).await;
                Some(Child::start(&named)?)
            }
            (Step::Return, Some(member)) => {
                member.kill().await?;
                Some(Child::start(&named)?)
            }
            (Step::Kill, Some(member)) => {
                member.kill().await?;
                None
            }
            (_, None) => return failure("there is no second member"),
        };
        let ends =
            began.last().map_or(0.0, |(_, at)| *at) + Duration::from_secs(seconds).as_secs_f64();
        tokio::time::sleep(Duration::from_secs_f64((ends - now()).max(0.0))).await;
    }
    Ok(began)
}

/// Asks for the group's offsets until told to stop.
fn look(order: &Order, stop: &AtomicBool) -> Outcome<Vec<Sample>> {
    let doing = || "cannot ask for the committed offsets".to_owned();
    let mut settings = topic::settings(&order.kafka);
    let consumer: BaseConsumer = settings.set("group.id", &order.group).create().explain(doing)?;
    let mut samples = Vec::new();
    while !stop.load(Relaxed) {
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition(&order.topic, partition);
        }
        // A coordinator that is busy with a rebalance may not answer: the next look is soon.
        if let Ok(found) = consumer.committed_offsets(list, Duration::from_secs(1)) {
            let at = now();
            samples.extend((0..).zip(found.elements()).map(|(partition, element)| {
                let next = match element.offset() {
                    Offset::Offset(next) => usize::try_from(next).unwrap_or_default(),
                    _ => 0,
                };
                (at, partition, next)
            }));
        }
        thread::sleep(SAMPLE);
    }
    Ok(samples)
}

/// Per partition what was sent and what became of it, by offset; no time for second copies.
struct Records(Vec<Vec<Option<(f64, f64)>>>);

impl Records {
    fn of(plan: Plan, sent: &[Sent], commits: &HashMap<Uuid, f64>) -> Outcome<Self> {
        let mut all = vec![Vec::new(); usize::try_from(PARTITIONS).unwrap_or_default()];
        let mut seen = HashSet::new();
        for (deposit, (id, at)) in plan.deposits().zip(sent) {
            let Some(committed) = commits.get(id) else {
                return failure(format!("event {id} had no effect"));
            };
            let original = seen.insert(*id);
            let partition = usize::try_from(deposit.partition()).unwrap_or_default();
            all[partition].push(original.then_some((*at, *committed)));
        }
        Ok(Self(all))
    }

    fn figures(&self, began: &Began, samples: &[Sample]) -> BTreeMap<&'static str, f64> {
        let mut figures = BTreeMap::new();
        for (index, (step, from)) in began.iter().enumerate() {
            let until = began.get(index + 1).map_or(f64::INFINITY, |(_, at)| *at);
            let mut stood: Vec<f64> = self.0.iter().map(|all| stood(all, *from, until)).collect();
            stood.sort_by(f64::total_cmp);
            let (others, moved) = match step {
                Step::Calm => ("calm: half stood s", "calm: stood s"),
                Step::Join => ("join: others stood s", "join: moved stood s"),
                Step::Leave => ("leave: others stood s", "leave: moved stood s"),
                Step::Return => ("return: others stood s", "return: its own stood s"),
                Step::Kill => ("kill: others stood s", "kill: its own stood s"),
            };
            figures.insert(others, stood[MOVED - 1]);
            figures.insert(moved, stood.last().copied().unwrap_or_default());
        }
        let mut behind: Vec<f64> = samples
            .iter()
            .filter(|(at, ..)| calm(began, *at))
            .map(|one| self.behind(one))
            .collect();
        behind.sort_by(f64::total_cmp);
        let p99 = behind.get(behind.len() * 99 / 100).copied().unwrap_or(f64::NAN);
        figures.insert("offsets behind p99 s", p99);
        figures
    }

    /// For how long the first event at or above the offset had been settled.
    fn behind(&self, &(at, partition, next): &Sample) -> f64 {
        let first = self.0[partition].iter().skip(next).flatten().next();
        first.map_or(0.0, |(_, committed)| (at - committed).max(0.0))
    }
}

/// The longest that an event of the time waited for its effect. One that was sent right before the next step,
/// and met it, is the next step's: a process that is killed had read it, or was about to.
fn stood(all: &[Option<(f64, f64)>], from: f64, until: f64) -> f64 {
    let met = |(at, committed): &&(f64, f64)| (from..until).contains(&committed.min(at + USUAL));
    let of_then = all.iter().flatten().filter(met);
    of_then.map(|(at, committed)| committed - at).fold(0.0, f64::max)
}

/// Whether no rebalance has to do with what is seen then.
fn calm(began: &Began, at: f64) -> bool {
    let step = began.iter().rev().find(|(_, from)| *from <= at);
    step.is_some_and(|(step, from)| {
        matches!(step, Step::Calm | Step::Join) && at - from > REBALANCING
    })
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_meets_the_next_step_is_counted_there() {
        let settled = Some((9.95, 9.96));
        let killed = Some((9.97, 56.0));
        let slow = Some((3.0, 12.0));
        let all = [settled, None, slow, killed];
        let near = |is: f64, wanted: f64| assert!((is - wanted).abs() < 1e-6, "{is} for {wanted}");
        near(stood(&all[..2], 0.0, 10.0), 0.01);
        near(stood(&all, 0.0, 10.0), 9.0);
        near(stood(&all, 10.0, 70.0), 46.03);
        near(stood(&all, 70.0, 80.0), 0.0);
    }
}
