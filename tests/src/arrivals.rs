//! What readers of a topic see: every record of it, from the first to the last.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rdkafka::{
    Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::Headers as _,
};
use serde::Deserialize;

use crate::topic::client_settings;

const QUIET_MAX: Duration = Duration::from_secs(20);
/// How long a Kafka transaction that is still open may hold up a look at its topic.
const OPEN_MAX: Duration = Duration::from_secs(3);
const CALL_MAX: Duration = Duration::from_secs(5);

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its key.
    pub key: String,
    /// The header `event_id`.
    pub event_id: String,
    /// The field `n` of its payload.
    pub n: i64,
    /// Its timestamp, in milliseconds since 1970.
    pub at_ms: i64,
}

#[derive(Deserialize)]
struct Counted {
    n: i64,
}

/// Reads a topic with `read_committed`, all of it, partition by partition in their order. What is in a
/// Kafka transaction that has just been ended is part of it; what is in one that stays open is not.
pub async fn arrivals(bootstrap: &str, topic: &str, partitions: i32) -> Vec<Arrival> {
    let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
    let read = tokio::task::spawn_blocking(move || read(&bootstrap, &topic, partitions));
    read.await.expect("the topic can be read")
}

fn read(bootstrap: &str, topic: &str, partitions: i32) -> Vec<Arrival> {
    let consumer = reader(bootstrap, "read_committed");
    decided(&consumer, &reader(bootstrap, "read_uncommitted"), topic, partitions);
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("an assignment");
    drop(list);
    let (mut found, mut open, began) = (Vec::new(), partitions, Instant::now());
    while open > 0 {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => found.push(arrival(&message)),
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => println!("reading {topic}: {error}"),
            None => assert!(began.elapsed() < QUIET_MAX, "the end of {topic} does not come"),
        }
    }
    found.sort_by_key(|arrival| (arrival.partition, arrival.offset));
    found
}

fn reader(bootstrap: &str, isolation: &str) -> BaseConsumer {
    let mut settings = client_settings(bootstrap);
    settings.set("group.id", "tests-without-group");
    settings.set("enable.auto.commit", "false");
    settings.set("isolation.level", isolation);
    settings.set("enable.partition.eof", "true");
    settings.create().expect("a consumer")
}

/// Waits until both see the same end: a broker answers the end of a Kafka transaction before it has
/// written it into every partition.
fn decided(committed: &BaseConsumer, all: &BaseConsumer, topic: &str, partitions: i32) {
    let end = |reader: &BaseConsumer, partition| {
        reader.fetch_watermarks(topic, partition, CALL_MAX).map(|(_, end)| end).ok()
    };
    let began = Instant::now();
    while (0..partitions).any(|partition| end(committed, partition) != end(all, partition))
        && began.elapsed() < OPEN_MAX
    {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn arrival(message: &rdkafka::message::BorrowedMessage<'_>) -> Arrival {
    let text = |bytes: Option<&[u8]>| {
        bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    let headers = message.headers();
    let id = headers.and_then(|all| all.iter().find(|header| header.key == "event_id"));
    let counted: Option<Counted> =
        message.payload().and_then(|payload| serde_json::from_slice(payload).ok());
    Arrival {
        partition: message.partition(),
        offset: message.offset(),
        key: text(message.key()),
        event_id: text(id.and_then(|header| header.value)),
        n: counted.map_or(0, |counted| counted.n),
        at_ms: message.timestamp().to_millis().unwrap_or(-1),
    }
}

/// What an inbox makes of it: the events of each key in the order of their first arrival.
pub fn firsts(arrivals: &[Arrival]) -> BTreeMap<String, Vec<i64>> {
    let mut seen = std::collections::HashSet::new();
    let mut firsts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for arrival in arrivals {
        if seen.insert(&arrival.event_id) {
            firsts.entry(arrival.key.clone()).or_default().push(arrival.n);
        }
    }
    firsts
}

/// How many records are copies of earlier ones.
pub fn copies(arrivals: &[Arrival]) -> usize {
    let ids: std::collections::HashSet<_> = arrivals.iter().map(|a| &a.event_id).collect();
    arrivals.len() - ids.len()
}
