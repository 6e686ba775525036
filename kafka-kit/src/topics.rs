//! What Kafka says of the configured topics, for `check`: how they are kept, and what is in them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use inbox_engine::internal::NextOffset;
use outbox_core::{Header, Record, Text};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier},
    client::DefaultClientContext,
    consumer::Consumer as _,
    message::{BorrowedMessage, Headers as _},
    metadata::MetadataPartition,
};

use crate::{
    broker::BrokerError,
    inspect::{ANSWER_MAX, Client, OFFSETS_MAX, aside, client, no_answer},
    settings::KafkaSettings,
};

/// Records of a topic that are looked at, in all.
const SAMPLE_MAX: i64 = 200;
/// Partitions of a topic that they are taken from.
const SAMPLED_PARTITIONS_MAX: usize = 8;
/// How long reading them may take.
const SAMPLE_TIME: Duration = Duration::from_secs(3);

/// A topic, without any group.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TopicFacts {
    /// Its name.
    pub topic: String,
    /// How many it has.
    pub partitions: usize,
    /// The fewest replicas that one of its partitions has.
    pub replicas_min: usize,
    /// Partitions that nobody leads.
    pub leaderless: Vec<i32>,
    /// Nothing when the user may not ask.
    pub policy: Option<TopicPolicy>,
    /// By partition: the first offset that is younger than half of the time for which records are kept;
    /// the log's end when none is.
    pub half_time: BTreeMap<i32, NextOffset>,
    /// Some of the newest records: partition, offset, record.
    pub sample: Vec<(i32, i64, Record)>,
}

/// How a topic keeps its records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TopicPolicy {
    /// Nothing: for ever, or until compacted.
    pub time: Option<Duration>,
    /// Whether a record is as old as its own timestamp says, and not as it is in the log.
    pub by_event: bool,
    /// Bytes of a partition.
    pub bytes: Option<u64>,
    /// Bytes of a batch, compressed as it may be.
    pub batch_bytes_max: Option<u64>,
    /// Whether older records of a key are removed.
    pub compacted: bool,
    /// How many replicas a record has to be on before it counts as written.
    pub in_sync_min: usize,
    /// Whether a replica that lacks records may lead.
    pub unclean_election: bool,
}

/// Every configured topic that is there.
///
/// # Errors
/// When no broker answers.
pub async fn topics(settings: KafkaSettings) -> Result<Vec<TopicFacts>, BrokerError> {
    let policy = read_policies(&settings.client_config()?, &settings.topics).await;
    aside(move || {
        let client = client(&settings)?;
        let of = |(topic, policy): (&String, Option<TopicPolicy>)| {
            look(&client, &settings, topic, policy)
        };
        settings.topics.iter().zip(policy).map(of).collect()
    })
    .await
}

/// How each topic is kept, in their order; nothing where nobody tells.
pub(crate) async fn read_policies(
    config: &ClientConfig,
    topics: &[String],
) -> Vec<Option<TopicPolicy>> {
    let none = || vec![None; topics.len()];
    let Ok(admin) = config.create::<AdminClient<DefaultClientContext>>() else { return none() };
    let asked: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let options = AdminOptions::new().request_timeout(Some(OFFSETS_MAX));
    match admin.describe_configs(&asked, &options).await {
        Ok(answers) => answers.iter().map(|answer| answer.as_ref().ok().map(read_policy)).collect(),
        Err(_) => none(),
    }
}

fn read_policy(config: &ConfigResource) -> TopicPolicy {
    let value = |name| config.get(name).and_then(|entry| entry.value.as_deref());
    let number = |name| value(name).and_then(|text| text.parse::<u64>().ok());
    let policy = value("cleanup.policy").unwrap_or("delete");
    // -1 is no number here: without limit.
    let time = number("retention.ms").map(Duration::from_millis);
    TopicPolicy {
        time: time.filter(|_| policy.contains("delete")),
        by_event: value("message.timestamp.type") != Some("LogAppendTime"),
        bytes: number("retention.bytes").filter(|_| policy.contains("delete")),
        batch_bytes_max: number("max.message.bytes"),
        compacted: policy.contains("compact"),
        in_sync_min: number("min.insync.replicas")
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(1),
        unclean_election: value("unclean.leader.election.enable") == Some("true"),
    }
}

fn look(
    client: &Client,
    settings: &KafkaSettings,
    topic: &str,
    policy: Option<TopicPolicy>,
) -> Result<TopicFacts, BrokerError> {
    let metadata = client
        .fetch_metadata(Some(topic), ANSWER_MAX)
        .map_err(|error| no_answer(client, settings, &error))?;
    let mut facts = TopicFacts { topic: topic.to_owned(), policy, ..TopicFacts::default() };
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let Some(found) = found.filter(|found| found.error().is_none()) else { return Ok(facts) };
    let partitions = found.partitions();
    facts.partitions = partitions.len();
    facts.replicas_min = partitions.iter().map(|p| p.replicas().len()).min().unwrap_or(0);
    facts.leaderless =
        partitions.iter().filter(|p| p.leader() < 0).map(MetadataPartition::id).collect();
    facts.leaderless.sort_unstable();
    let numbers: Vec<i32> = partitions.iter().map(MetadataPartition::id).collect();
    if let Some(time) = facts.policy.as_ref().and_then(|policy| policy.time) {
        facts.half_time = since(client, topic, &numbers, time / 2);
    }
    facts.sample = sample(client, topic, &numbers);
    Ok(facts)
}

/// The first offsets that are younger than `age`. What cannot be had is left out.
fn since(
    client: &Client,
    topic: &str,
    numbers: &[i32],
    age: Duration,
) -> BTreeMap<i32, NextOffset> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX);
    let mut asked = TopicPartitionList::new();
    for number in numbers {
        // Here an offset is a time.
        let _ = asked.add_partition_offset(topic, *number, Offset::Offset(at));
    }
    let Ok(answer) = client.offsets_for_times(asked, OFFSETS_MAX) else { return BTreeMap::new() };
    let elements = answer.elements();
    let known = elements.iter().filter_map(|element| {
        let offset = match element.offset() {
            Offset::Offset(offset) => offset,
            // None is as young.
            Offset::End => client.fetch_watermarks(topic, element.partition(), OFFSETS_MAX).ok()?.1,
            _ => return None,
        };
        element.error().ok().map(|()| (element.partition(), NextOffset(offset)))
    });
    known.collect()
}

/// Some of the newest records, without a group. A topic that cannot be read tells nothing here.
fn sample(client: &Client, topic: &str, numbers: &[i32]) -> Vec<(i32, i64, Record)> {
    let numbers = &numbers[..numbers.len().min(SAMPLED_PARTITIONS_MAX)];
    let each = SAMPLE_MAX / i64::try_from(numbers.len().max(1)).unwrap_or(1);
    let mut from = TopicPartitionList::new();
    let mut waited_for = 0;
    for number in numbers {
        let range = client.fetch_watermarks(topic, *number, OFFSETS_MAX);
        let Ok((start, end)) = range else { continue };
        let first = start.max(end - each);
        if first < end && from.add_partition_offset(topic, *number, Offset::Offset(first)).is_ok() {
            waited_for += 1;
        }
    }
    if waited_for == 0 || client.assign(&from).is_err() {
        return Vec::new();
    }
    drop(from);
    let (until, mut found) = (Instant::now() + SAMPLE_TIME, Vec::new());
    while waited_for > 0 && Instant::now() < until {
        match client.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                found.push((message.partition(), message.offset(), copy_record(&message)));
            }
            // The end of a partition, or one that cannot be read.
            Some(Err(_)) => waited_for -= 1,
            None => {}
        }
    }
    let _ = client.unassign();
    found
}

fn copy_record(message: &BorrowedMessage<'_>) -> Record {
    let bytes = |part: Option<&[u8]>| part.map(Bytes::copy_from_slice);
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    Record {
        key: bytes(message.key()),
        headers: headers
            .map(|header| Header {
                name: Text::from(header.key.to_owned()),
                value: bytes(header.value),
            })
            .collect(),
        payload: bytes(message.payload()),
        timestamp_ms: message.timestamp().to_millis(),
    }
}
