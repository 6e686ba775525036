//! What is known of topics: whether they are there, and which partitions no broker leads.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use rdkafka::{
    client::{Client, ClientContext},
    types::RDKafkaErrorCode as Code,
};

use super::{
    OutgoingRecord, Partitions,
    inspection::{TopicStatus, statuses},
};
use crate::ffi;

/// Topics are asked for again after this time: a partition may have lost its leader.
const ASK_AGAIN: Duration = Duration::from_secs(3);

/// The topics that are there, and when they were asked for.
#[derive(Default)]
pub(super) struct KnownTopics(HashMap<String, (Partitions, Instant)>);

/// Why nothing goes to a topic, or to partitions of it.
pub(super) enum Closed {
    Topic(Code),
    Partitions(Partitions),
}

/// Why a record is not handed over.
pub(super) enum Refused {
    Code(Code),
    /// No broker leads its partition.
    Leaderless(i32),
}

impl Closed {
    pub(super) fn refuses(&self, outgoing: &OutgoingRecord) -> Option<Refused> {
        match self {
            Self::Topic(code) => Some(Refused::Code(*code)),
            Self::Partitions(partitions) => {
                leaderless(outgoing, partitions).map(Refused::Leaderless)
            }
        }
    }
}

impl KnownTopics {
    /// The topics of a batch that do not take all records, and why; those that are not known to be there are asked for,
    /// all at once. A record to a partition without a leader must not come into a transaction: that could be neither
    /// committed nor aborted, and nothing else could be sent.
    ///
    /// # Errors
    /// When nobody answers.
    pub(super) fn closed<C: ClientContext>(
        &mut self,
        client: &Client<C>,
        records: &[OutgoingRecord],
    ) -> Result<HashMap<String, Closed>, String> {
        let now = Instant::now();
        let topics: HashSet<&String> = records.iter().map(|outgoing| &outgoing.topic).collect();
        let is_stale = |topic: &&&String| {
            self.0.get(**topic).is_none_or(|(_, asked)| now >= *asked + ASK_AGAIN)
        };
        let asked = topics.iter().filter(is_stale).map(|topic| (*topic).clone()).collect();
        let mut closed = HashMap::new();
        for (name, topic) in self.ask(client, asked) {
            match topic {
                // What was there is still taken to be: brokers forget topics for moments, and a record tells.
                _ if self.0.contains_key(&name) => {}
                TopicStatus::There(_) => {}
                TopicStatus::Missing => {
                    closed.insert(name, Closed::Topic(Code::UnknownTopicOrPartition));
                }
                TopicStatus::Refused(code) => _ = closed.insert(name, Closed::Topic(code)),
                TopicStatus::Unknown(why) => return Err(why),
            }
        }
        for topic in topics {
            if let Some((partitions, _)) = self.0.get(topic)
                && !partitions.leaderless.is_empty()
            {
                closed.insert(topic.clone(), Closed::Partitions(partitions.clone()));
            }
        }
        Ok(closed)
    }

    /// Asks for topics, and remembers those that are there.
    pub(super) fn ask<C: ClientContext>(
        &mut self,
        client: &Client<C>,
        names: Vec<String>,
    ) -> Vec<(String, TopicStatus)> {
        let found = statuses(client, names);
        let now = Instant::now();
        for (name, topic) in &found {
            if let TopicStatus::There(partitions) = topic {
                self.0.insert(name.clone(), (partitions.clone(), now));
            } else if let Some((_, asked)) = self.0.get_mut(name) {
                *asked = now;
            }
        }
        found
    }

    /// The next record for it asks for it.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

/// The partition of a record, if no broker leads it. For a record without key and partition the client finds another.
fn leaderless(outgoing: &OutgoingRecord, partitions: &Partitions) -> Option<i32> {
    let of_key = || {
        let key = outgoing.record.key.as_deref()?;
        (partitions.count > 0).then(|| ffi::partition_of(key, partitions.count))
    };
    let partition = outgoing.partition.or_else(of_key)?;
    let waits = partitions.leaderless.contains(&partition) && Rule::LeaderlessWaits.on();
    waits.then_some(partition)
}
