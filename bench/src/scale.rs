//! Processes of one group share a backlog, which comes once each of them has its partitions: what they do
//! together, not how they meet.

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::groups::{GroupInfo, GroupList};
use xtask::failure::{Explain as _, Outcome, failure};

use crate::child::{Child, Worked};
use crate::latency::{Patience, blocking, wait_for};
use crate::options::Order;
use crate::plan::Expected;
use crate::scenario::Case;
use crate::server::Database;
use crate::topic;

/// How often Kafka is asked for the group.
const LOOK: Duration = Duration::from_millis(50);
/// The database reads all accounts for each look, beside the processes.
const BACKLOG: Patience =
    Patience { look: Duration::from_millis(250), longest: Duration::from_mins(10) };
/// How long the processes may take to share the partitions.
const MEETING_MAX: Duration = Duration::from_mins(1);
/// How long nothing moves before they have met; a member hears of a rebalance within three seconds.
const MET: Duration = Duration::from_secs(4);
const CALL_MAX: Duration = Duration::from_secs(5);

/// Runs the processes of a candidate; they end when the database has everything.
pub(crate) async fn run(
    case: &Case,
    order: Order,
    database: &Database,
    expected: &Expected,
) -> Outcome<Worked> {
    let order = Order { topic: format!("{}-topic", order.group), records: 0, ..order };
    let (kafka, name) = (order.kafka.clone(), order.topic.clone());
    blocking(move || topic::create(&kafka, &name)).await?;
    let mut children = Vec::new();
    for _ in 0..case.processes {
        children.push(Child::start(&order)?);
    }
    let (asked, processes) = (order.clone(), case.processes);
    blocking(move || meet(&asked, processes)).await?;
    let (kafka, name, plan) = (order.kafka.clone(), order.topic.clone(), case.plan);
    blocking(move || topic::fill(&kafka, &name, plan)).await?;
    let inbox = order.candidate.inbox();
    wait_for(&mut children, database, inbox, expected.events(), BACKLOG).await?;
    let mut all = Worked::default();
    for child in &mut children {
        child.end();
    }
    for child in children {
        let one = child.said().await?;
        all.cpu_s += one.cpu_s;
        all.memory = all.memory.max(one.memory);
    }
    blocking(move || topic::delete(&order.kafka, &order.topic)).await?;
    Ok(all)
}

/// Waits until each process has partitions, and none have moved for a while.
fn meet(order: &Order, processes: u32) -> Outcome {
    let doing = || format!("cannot ask Kafka for the group {}", order.group);
    let client: BaseConsumer = topic::settings(&order.kafka).create().explain(doing)?;
    let began = Instant::now();
    let (mut before, mut since) = (Vec::new(), Instant::now());
    while began.elapsed() < MEETING_MAX {
        // A coordinator that is still being chosen does not answer: the next look is soon.
        let groups = client.fetch_group_list(Some(&order.group), CALL_MAX).ok();
        let members = groups.iter().flat_map(GroupList::groups).flat_map(GroupInfo::members);
        let mut shares: Vec<_> = members
            .map(|member| (member.id().to_owned(), member.assignment().map(<[u8]>::to_vec)))
            .collect();
        shares.sort_unstable();
        if shares != before {
            (before, since) = (shares, Instant::now());
        }
        let share = |assigned: &[u8]| {
            assigned.windows(order.topic.len()).any(|name| name == order.topic.as_bytes())
        };
        let shared = before.iter().filter(|(_, of)| of.as_deref().is_some_and(share)).count();
        if shared == processes as usize && since.elapsed() > MET {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
    failure(format!("after {} s not each process has partitions", MEETING_MAX.as_secs()))
}
