//! A member of a group as the pipeline is one, in slow motion.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use inbox_engine::internal::{Generation, LeaderEpoch, NextOffset};
use kafka_kit::internal::{Arrival, Broker, BrokerEvent, KafkaBroker, KafkaSettings};
use outbox_core::TopicPartition;
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Instant, timeout},
};

use crate::world::{World, topic_partition};

/// Longest wait for anything that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often a follower asks for a commit before it counts as failed.
const COMMITS: usize = 5;

pub(crate) struct Member {
    pub(crate) broker: Arc<KafkaBroker>,
    events: UnboundedReceiver<BrokerEvent>,
    generations: u64,
}

impl Member {
    pub(crate) fn join(settings: KafkaSettings) -> Self {
        let (sender, events) = unbounded_channel();
        let broker = Arc::new(kafka_kit::internal::connect(settings, sender).unwrap());
        Self { broker, events, generations: 0 }
    }

    /// One that was assigned the only partition of a new topic, which has so many records.
    pub(crate) async fn of_one_partition(world: &World, records: u32) -> (Self, TopicPartition) {
        let topic = world.topic(1).await;
        world.write(&topic, 0, 0..records).await;
        let mut member = Self::join(world.settings(&[&topic]));
        member.assigned(1).await;
        (member, topic_partition(&topic, 0))
    }

    /// Where the group stands.
    pub(crate) async fn committed(&self, topic_partition: &TopicPartition) -> Option<NextOffset> {
        self.broker.committed(topic_partition).await.unwrap().map(|committed| committed.next)
    }

    /// The next event, or `None` after `wait`.
    pub(crate) async fn within(&mut self, wait: Duration) -> Option<BrokerEvent> {
        // That a broker has answered comes at its own pace, whatever else there is.
        let next = async {
            loop {
                match self.events.recv().await {
                    Some(BrokerEvent::Answered) => {}
                    event => return event,
                }
            }
        };
        timeout(wait, next).await.ok().flatten()
    }

    /// The first answer that `look` finds in the events to come.
    pub(crate) async fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(BrokerEvent) -> Option<T>,
    ) -> T {
        let end = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while let Some(event) = self.within(end - Instant::now().min(end)).await {
            seen.push(brief(&event));
            if let Some(found) = look(event) {
                return found;
            }
        }
        panic!("{what} did not happen; instead: {seen:?}")
    }

    pub(crate) async fn assigned(&mut self, count: usize) -> Vec<TopicPartition> {
        let mut all = Vec::new();
        self.until("the assignment", |event| {
            if let BrokerEvent::Assigned(partitions) = event {
                all.extend(partitions);
            }
            (all.len() >= count).then_some(())
        })
        .await;
        all.sort();
        all
    }

    /// Seeks under a new generation, and resumes.
    pub(crate) async fn read_from(
        &mut self,
        topic_partition: &TopicPartition,
        to: i64,
    ) -> Generation {
        let generation = self.seek(topic_partition, to).await;
        self.broker.pause(topic_partition, false);
        generation
    }

    pub(crate) async fn seek(&mut self, topic_partition: &TopicPartition, to: i64) -> Generation {
        self.generations += 1;
        let generation = Generation(self.generations);
        let sought =
            self.broker.seek(topic_partition, generation, NextOffset(to), LeaderEpoch::UNKNOWN);
        sought.await.unwrap();
        generation
    }

    /// Messages that wait to be taken.
    pub(crate) fn waiting(&self) -> usize {
        self.events.len()
    }

    /// Arrivals of one partition and generation until there are `count`.
    pub(crate) async fn arrivals(
        &mut self,
        topic_partition: &TopicPartition,
        wanted: Generation,
        count: usize,
    ) -> Vec<Arrival> {
        let mut all = Vec::new();
        self.until(&format!("{count} arrivals"), |event| {
            if let BrokerEvent::Arrived { partition, generation, arrivals, .. } = event
                && partition == *topic_partition
                && generation == wanted
            {
                all.extend(arrivals);
            }
            (all.len() >= count).then_some(())
        })
        .await;
        all
    }

    pub(crate) async fn close(self) {
        self.broker.close(Duration::from_secs(10)).await.unwrap();
    }
}

fn brief(event: &BrokerEvent) -> String {
    match event {
        BrokerEvent::Arrived { partition, generation, arrivals, .. } => {
            let (first, last) = (arrivals.first(), arrivals.last());
            let offsets = (first.map(|a| a.offset.0), last.map(|a| a.offset.0));
            format!("Arrived {} {generation:?} {offsets:?}", partition.partition)
        }
        other => format!("{other:?}"),
    }
}

/// What was delivered to whom: `(who, partition, offset)` in the order it happened.
pub(crate) type Deliveries = Arc<Mutex<Vec<(&'static str, TopicPartition, i64)>>>;

/// Reads everything it is assigned from the committed offset on, as the pipeline does, and lets go
/// after `drain`, until told to stop. Answers why commits failed: the mock refuses some for as long as
/// a rebalance lasts, which a broker takes.
pub(crate) async fn follow(
    who: &'static str,
    mut member: Member,
    deliveries: Deliveries,
    drain: Duration,
    mut stop: tokio::sync::oneshot::Receiver<()>,
) -> Vec<String> {
    let mut failed = Vec::new();
    let mut next: HashMap<TopicPartition, (NextOffset, LeaderEpoch)> = HashMap::new();
    loop {
        let event = tokio::select! {
            event = member.events.recv() => event.unwrap(),
            _ = &mut stop => break,
        };
        match event {
            BrokerEvent::Assigned(partitions) => {
                for topic_partition in partitions {
                    let from = member.committed(&topic_partition).await;
                    member.read_from(&topic_partition, from.map_or(0, |next| next.0)).await;
                }
            }
            BrokerEvent::Arrived { partition, arrivals, .. } => {
                let mut deliveries = deliveries.lock().unwrap();
                for arrival in arrivals {
                    deliveries.push((who, partition.clone(), arrival.offset.0));
                    next.insert(partition.clone(), (arrival.offset.next(), arrival.leader_epoch));
                }
            }
            BrokerEvent::Revoked(partitions) => {
                tokio::time::sleep(drain).await;
                let mine = partitions
                    .iter()
                    .filter_map(|topic_partition| next.remove_entry(topic_partition))
                    .collect();
                failed.extend(commit(&member, mine).await);
                member.broker.ack_revocation(partitions);
            }
            BrokerEvent::Lost(partitions) => panic!("{who} lost {partitions:?}"),
            BrokerEvent::Fatal(why) => panic!("{who} died: {why}"),
            BrokerEvent::OffsetGone { error, .. } => panic!("{who} found no offset: {error}"),
            BrokerEvent::Answered | BrokerEvent::Position { .. } | BrokerEvent::Trouble(_) => {}
        }
    }
    // What it leaves uncommitted the next owner reads again, and soon enough to be seen here.
    failed.extend(commit(&member, next.into_iter().collect()).await);
    member.close().await;
    failed
}

/// Why it failed, if it did. It asks again: while the group agrees on who reads what, a coordinator
/// refuses commits for a moment.
async fn commit(
    member: &Member,
    positions: Vec<(TopicPartition, (NextOffset, LeaderEpoch))>,
) -> Option<String> {
    let positions: Vec<_> =
        positions.into_iter().map(|(topic_partition, (n, e))| (topic_partition, n, e)).collect();
    if positions.is_empty() {
        return None;
    }
    let mut refused = Vec::new();
    while refused.len() < COMMITS {
        match member.broker.commit(positions.clone()).await {
            Ok(_) => return None,
            Err(error) => refused.push(error.to_string()),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Some(refused.join("; "))
}
