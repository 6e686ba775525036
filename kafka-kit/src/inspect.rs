//! Looking at Kafka without joining the group: for `status` and `check`.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::{LogRange, NextOffset};
use outbox_core::TopicPartition;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    metadata::MetadataTopic,
    types::RDKafkaErrorCode,
};

use crate::{
    broker::{BrokerError, TopicState},
    event::topic_state,
    ffi,
    forbidden::Forbidden,
    properties::refusal,
    reasons::Reasons,
    settings::KafkaSettings,
};

pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);
pub(crate) const OFFSETS_MAX: Duration = Duration::from_secs(5);

/// What a group's coordinator says while it moves or comes up.
const PASSES: [RDKafkaErrorCode; 3] = [
    RDKafkaErrorCode::CoordinatorLoadInProgress,
    RDKafkaErrorCode::CoordinatorNotAvailable,
    RDKafkaErrorCode::NotCoordinator,
];

/// What Kafka knows of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFacts {
    /// Which.
    pub partition: TopicPartition,
    /// What can be read.
    pub log: LogRange,
    /// Where the group stands.
    pub committed: Option<NextOffset>,
}

/// What Kafka knows of the configured topics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Logs {
    /// Every partition of those that are there.
    pub facts: Vec<LogFacts>,
    /// Each topic; `None` when it is not there.
    pub topics: HashMap<String, Option<TopicState>>,
}

impl Logs {
    /// What the user may not read.
    pub fn forbidden(&self) -> impl Iterator<Item = Forbidden> {
        let forbidden =
            self.topics.iter().filter(|(_, state)| state.is_some_and(|it| it.is_forbidden));
        forbidden.map(|(topic, _)| Forbidden::reading("topic", topic))
    }

    /// Those of the topics that were looked for and are not there.
    pub fn missing<'t>(&self, topics: &'t [String]) -> Vec<&'t String> {
        topics.iter().filter(|topic| self.topics.get(*topic) == Some(&None)).collect()
    }
}

/// What Kafka knows of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicLogs {
    /// Its id; all zero: the broker does not tell it.
    pub id: [u8; 16],
    /// What can be read of each partition.
    pub logs: Vec<(i32, LogRange)>,
}

/// A client that joins no group.
pub(crate) type Client = BaseConsumer<Reasons>;

/// Every partition of the configured topics: where its log begins and ends, and where the group stands.
///
/// # Errors
/// When no broker answers, or access to a topic is refused.
pub async fn inspect(settings: KafkaSettings) -> Result<Logs, BrokerError> {
    aside(move || look(&settings)).await
}

/// Looks in a thread that may wait.
pub(crate) async fn aside<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, BrokerError> + Send + 'static,
) -> Result<T, BrokerError> {
    let looked = tokio::task::spawn_blocking(look).await;
    looked.unwrap_or_else(|error| Err(BrokerError(format!("querying Kafka failed: {error}"))))
}

/// A client for looking.
pub(crate) fn client(settings: &KafkaSettings) -> Result<Client, BrokerError> {
    let config = settings.client_config()?;
    config.create_with_context(Reasons::default()).map_err(|error| refusal(&error))
}

fn look(settings: &KafkaSettings) -> Result<Logs, BrokerError> {
    let client = client(settings)?;
    let mut all = Logs::default();
    for topic in &settings.topics {
        let there = exists(&client, settings, topic)?;
        let state = if there { describe_topic(&client, topic)? } else { None };
        all.topics.insert(topic.clone(), state);
        if state.is_some() {
            for partition in partitions(&client, settings, topic)? {
                all.facts.push(facts(&client, settings, partition)?);
            }
        }
    }
    if !all.facts.is_empty() {
        fill_committed(&client, settings, &mut all.facts)?;
    }
    Ok(all)
}

/// One topic, configured or not; `None` when it does not exist.
///
/// # Errors
/// When no broker answers, or access to the topic is refused.
pub async fn topic(
    settings: KafkaSettings,
    topic: String,
) -> Result<Option<TopicLogs>, BrokerError> {
    aside(move || look_at(&settings, &topic)).await
}

/// Where the group stands in one partition.
///
/// # Errors
/// When no broker answers.
pub async fn committed_of(
    settings: KafkaSettings,
    partition: TopicPartition,
) -> Result<Option<NextOffset>, BrokerError> {
    aside(move || {
        let client = client(&settings)?;
        let mut facts = [facts(&client, &settings, partition)?];
        fill_committed(&client, &settings, &mut facts)?;
        Ok(facts[0].committed)
    })
    .await
}

fn look_at(settings: &KafkaSettings, topic: &str) -> Result<Option<TopicLogs>, BrokerError> {
    let client = client(settings)?;
    if !exists(&client, settings, topic)? {
        return Ok(None);
    }
    let logs = partitions(&client, settings, topic)?.into_iter().map(|partition| {
        let number = partition.partition;
        facts(&client, settings, partition).map(|facts| (number, facts.log))
    });
    let logs = logs.collect::<Result<Vec<_>, _>>()?;
    Ok(describe_topic(&client, topic)?.map(|TopicState { id, .. }| TopicLogs { id, logs }))
}

/// What the cluster knows of a topic; `None` when it is not there.
fn describe_topic(client: &Client, topic: &str) -> Result<Option<TopicState>, BrokerError> {
    if ffi::is_mock(client) {
        return Ok(Some(TopicState::UNKNOWN));
    }
    topic_state(topic, ffi::topic(client, topic, OFFSETS_MAX))
}

fn exists(client: &Client, settings: &KafkaSettings, topic: &str) -> Result<bool, BrokerError> {
    let metadata = client
        .fetch_metadata(Some(topic), ANSWER_MAX)
        .map_err(|error| no_answer(client, settings, &error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let error = found.and_then(MetadataTopic::error).map(RDKafkaErrorCode::from);
    let gone = [RDKafkaErrorCode::UnknownTopic, RDKafkaErrorCode::UnknownTopicOrPartition];
    Ok(found.is_some() && !error.is_some_and(|error| gone.contains(&error)))
}

fn partitions(
    client: &Client,
    settings: &KafkaSettings,
    topic: &str,
) -> Result<Vec<TopicPartition>, BrokerError> {
    let metadata = client
        .fetch_metadata(Some(topic), ANSWER_MAX)
        .map_err(|error| no_answer(client, settings, &error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let error = found.and_then(MetadataTopic::error).map(RDKafkaErrorCode::from);
    match (found, error) {
        (Some(found), None) if !found.partitions().is_empty() => {
            let name: Arc<str> = topic.into();
            let topic_partition = |id| TopicPartition { topic: Arc::clone(&name), partition: id };
            Ok(found.partitions().iter().map(|partition| topic_partition(partition.id())).collect())
        }
        (_, Some(error)) => Err(BrokerError(format!(
            "topic {topic} cannot be read: {error}; check `kafka.topics` and the user's grants"
        ))),
        _ => Err(BrokerError(format!(
            "topic {topic} does not exist; check `kafka.topics`, or create it"
        ))),
    }
}

fn facts(
    client: &Client,
    settings: &KafkaSettings,
    partition: TopicPartition,
) -> Result<LogFacts, BrokerError> {
    let (start, end) = client
        .fetch_watermarks(&partition.topic, partition.partition, OFFSETS_MAX)
        .map_err(|error| no_answer(client, settings, &error))?;
    let log = LogRange { start: NextOffset(start), end: NextOffset(end) };
    Ok(LogFacts { partition, log, committed: None })
}

/// Fills in where the group stands. The lists end here: one that outlives its client hangs it.
fn fill_committed(
    client: &Client,
    settings: &KafkaSettings,
    all: &mut [LogFacts],
) -> Result<(), BrokerError> {
    let mut wanted = TopicPartitionList::new();
    for fact in &*all {
        wanted.add_partition(&fact.partition.topic, fact.partition.partition);
    }
    let found =
        committed_offsets(client, &wanted).map_err(|error| no_answer(client, settings, &error))?;
    for fact in all {
        let element = found.find_partition(&fact.partition.topic, fact.partition.partition);
        fact.committed = match element.map(|element| element.offset()) {
            Some(Offset::Offset(next)) => Some(NextOffset(next)),
            _ => None,
        };
    }
    Ok(())
}

/// Asks where the group stands. The first group of a cluster finds no coordinator for a moment: the
/// brokers make the topic that groups are kept in when they are asked for one.
fn committed_offsets(
    client: &Client,
    wanted: &TopicPartitionList,
) -> Result<TopicPartitionList, KafkaError> {
    let until = Instant::now() + ANSWER_MAX;
    loop {
        let asked = client.committed_offsets(wanted.clone(), ANSWER_MAX);
        let passes =
            matches!(&asked, Err(KafkaError::MetadataFetch(code)) if PASSES.contains(code));
        if !passes || Instant::now() >= until {
            return asked;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What it means that nobody answered, or that a broker did not allow what was asked.
pub(crate) fn no_answer(
    client: &Client,
    settings: &KafkaSettings,
    error: &KafkaError,
) -> BrokerError {
    // What the client has to say waits in its queue.
    let polled = client.poll(Duration::from_millis(100));
    let polled = polled.and_then(|polled| polled.err()?.rdkafka_error_code());
    if [polled, error.rdkafka_error_code()]
        .contains(&Some(RDKafkaErrorCode::GroupAuthorizationFailed))
    {
        return BrokerError(Forbidden::reading("group", &settings.group).to_string());
    }
    if let Some(refused) = client.context().refusal(&settings.bootstrap) {
        return BrokerError(refused);
    }
    let reason = client.context().first().map_or_else(|| error.to_string(), |(_, why)| why);
    BrokerError(format!(
        "no broker of `kafka.bootstrap` ({}) answered: {reason}; check the address, that the \
         brokers are up, and `kafka.security_protocol`",
        settings.bootstrap
    ))
}

#[cfg(test)]
mod tests {
    use rdkafka::{
        ClientConfig,
        mocking::MockCluster,
        producer::{FutureProducer, FutureRecord},
        types::{RDKafkaApiKey, RDKafkaRespErr},
    };

    use super::*;
    use crate::{excerpt::Excerpts, properties::Properties, settings::Protocol};

    fn settings(bootstrap: String, topic: &str) -> KafkaSettings {
        KafkaSettings {
            bootstrap,
            group: "billing".into(),
            topics: vec![topic.into()],
            instance_id: None,
            protocol: Protocol::Classic,
            session_timeout: Duration::from_secs(45),
            max_poll_interval: Duration::from_mins(5),
            excerpts: Excerpts::default(),
            properties: Properties::default(),
        }
    }

    #[tokio::test]
    async fn a_look_tells_log_ends_and_the_group_without_joining_it() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("orders", 2, 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers());
        let producer: FutureProducer = config.create().unwrap();
        for _ in 0..3 {
            let record = FutureRecord::<str, str>::to("orders").partition(1).payload("x");
            producer.send(record, Duration::from_secs(5)).await.unwrap();
        }
        config.set("group.id", "billing");
        let group: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("orders", 1, Offset::Offset(2)).unwrap();
        group.commit(&list, rdkafka::consumer::CommitMode::Sync).unwrap();
        drop(list);

        let facts = inspect(settings(cluster.bootstrap_servers(), "orders")).await.unwrap().facts;
        let told: Vec<_> = facts
            .iter()
            .map(|fact| {
                (fact.partition.partition, fact.log.start.0, fact.log.end.0, fact.committed)
            })
            .collect();
        assert_eq!(told, [(0, 0, 0, None), (1, 0, 3, Some(NextOffset(2)))]);
    }

    #[tokio::test]
    async fn a_coordinator_that_is_not_ready_is_asked_again() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("orders", 1, 1).unwrap();
        cluster.request_errors(
            RDKafkaApiKey::OffsetFetch,
            &[
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            ],
        );
        let facts = inspect(settings(cluster.bootstrap_servers(), "orders")).await.unwrap().facts;
        assert_eq!(facts[0].committed, None);
    }

    #[tokio::test]
    async fn a_topic_that_is_not_there_is_named() {
        let cluster = MockCluster::new(1).unwrap();
        let logs = inspect(settings(cluster.bootstrap_servers(), "odrers")).await.unwrap();
        assert_eq!(logs.topics, HashMap::from([("odrers".to_owned(), None)]));
    }

    #[tokio::test]
    async fn a_dead_broker_is_named_with_the_reason() {
        let error = inspect(settings("127.0.0.1:1".into(), "orders")).await.unwrap_err().0;
        assert!(
            error.starts_with("no broker of `kafka.bootstrap` (127.0.0.1:1) answered: "),
            "{error}"
        );
        assert!(error.contains("refused"), "{error}");
    }
}
