//! Looking at Kafka without writing.

use std::time::Duration;

use rdkafka::{
    client::{Client, ClientContext},
    config::FromClientConfigAndContext as _,
    metadata::{MetadataPartition, MetadataTopic},
    producer::{BaseProducer, Producer as _},
    types::RDKafkaErrorCode as Code,
};

use super::{
    ProducerSettings,
    fault::{self, SendFault},
};
use crate::{
    properties::refusal,
    reasons::Reasons,
    topics::{TopicPolicy, read_policies},
};

/// How long a question to the brokers may take.
const ASK_MAX: Duration = Duration::from_secs(5);
/// How often a topic that is not there is looked for.
const LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// The most topics that are checked by a prefix of their names, in the order of the names.
const AGING_MAX: usize = 100;

/// The most topics that are asked for at the same time.
const ASK_AT_ONCE: usize = 16;

/// How a topic stands.
#[derive(Debug)]
pub enum TopicStatus {
    There(Partitions),
    Missing,
    Refused(Code),
    Unknown(String),
}

/// The partitions of a topic.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Partitions {
    /// How many there are; 0 where that is not known.
    pub count: i32,
    /// Those that no broker leads: nobody can write to them.
    pub leaderless: Vec<i32>,
}

impl Partitions {
    fn of(topic: &MetadataTopic) -> Self {
        let leaderless = |partition: &&MetadataPartition| partition.leader() < 0;
        let partitions = topic.partitions();
        Self {
            count: i32::try_from(partitions.len()).unwrap_or_default(),
            leaderless: partitions.iter().filter(leaderless).map(MetadataPartition::id).collect(),
        }
    }
}

/// Asks for topics side by side, once each.
pub(super) fn statuses<C: ClientContext>(
    client: &Client<C>,
    names: Vec<String>,
) -> Vec<(String, TopicStatus)> {
    let mut found = Vec::with_capacity(names.len());
    for names in names.chunks(ASK_AT_ONCE) {
        let ask = |name: &String| (name.clone(), topic(client, name, 1));
        if let [name] = names {
            found.push(ask(name));
            continue;
        }
        std::thread::scope(|scope| {
            let asked: Vec<_> = names.iter().map(|name| scope.spawn(move || ask(name))).collect();
            // A thread that panicked has told of it; its topic is asked for again.
            found.extend(asked.into_iter().filter_map(|asked| asked.join().ok()));
        });
    }
    found
}

/// Asks for a topic, so many times before it counts as missing: brokers forget topics for moments.
fn topic<C: ClientContext>(client: &Client<C>, name: &str, looks: u32) -> TopicStatus {
    let mut found = TopicStatus::Missing;
    for look in 0..looks {
        if look > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
        let metadata = match client.fetch_metadata(Some(name), ASK_MAX) {
            Ok(metadata) => metadata,
            Err(error) => {
                return TopicStatus::Unknown(format!("querying the topic {name} failed: {error}"));
            }
        };
        let told = metadata.topics().iter().find(|topic| topic.name() == name);
        let partitions = told.map(Partitions::of).unwrap_or_default();
        match told.and_then(MetadataTopic::error).map(Code::from) {
            None if partitions.count > 0 => return TopicStatus::There(partitions),
            Some(Code::TopicAuthorizationFailed) => {
                return TopicStatus::Refused(Code::TopicAuthorizationFailed);
            }
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => {
                found = TopicStatus::Missing;
            }
            Some(code) if fault::classify(code) == SendFault::Record => {
                found = TopicStatus::Refused(code);
            }
            Some(Code::LeaderNotAvailable) => return TopicStatus::There(partitions),
            None | Some(_) => {}
        }
    }
    found
}

/// Asks Kafka whether it is there, and after a topic. It fences nobody. Blocks: for a thread that may wait.
///
/// # Errors
/// When Kafka cannot be reached, or the settings make no client.
pub fn inspect<O>(
    settings: &ProducerSettings<O>,
    name: Option<&str>,
) -> Result<Option<String>, String> {
    let config = settings.inspection_config();
    let client = BaseProducer::from_config_and_context(&config, Reasons::default());
    let client = client.map_err(|error| refusal(&error).0)?;
    client.client().fetch_metadata(None, ASK_MAX).map_err(|error| {
        // What the client has to say waits in its queue.
        client.poll(Duration::from_millis(100));
        client.context().refusal(&settings.bootstrap).unwrap_or_else(|| {
            format!(
                "Kafka at {} does not answer ({error}); check `kafka.bootstrap`, the network, and \
                 whether the brokers require TLS or SASL",
                settings.bootstrap
            )
        })
    })?;
    Ok(match name.map(|name| (name, topic(client.client(), name, LOOKS))) {
        Some((name, TopicStatus::Missing)) => Some(fault::of_record(Code::UnknownTopic, name, 0)),
        Some((name, TopicStatus::Refused(code))) => Some(fault::of_record(code, name, 0)),
        Some((_, TopicStatus::Unknown(why))) => Some(why),
        Some((_, TopicStatus::There(_))) | None => None,
    })
}

/// Topics whose names begin so that delete records by the time that these have, and the shortest of these times. Nobody
/// answers: none.
pub async fn aging_topics<O: Send + Sync + 'static>(
    settings: ProducerSettings<O>,
    prefix: String,
) -> Option<(Vec<String>, Duration)> {
    let config = settings.inspection_config();
    let listed = tokio::task::spawn_blocking(move || names(&settings, &prefix)).await.ok()??;
    let policies = read_policies(&config, &listed).await;
    let age = |policy: Option<TopicPolicy>| policy.filter(|policy| policy.by_event)?.time;
    let aging = listed.into_iter().zip(policies);
    let aging = aging.filter_map(|(name, policy)| Some((name, age(policy)?)));
    let (names, ages): (Vec<String>, Vec<Duration>) = aging.unzip();
    Some((names, ages.into_iter().min()?))
}

fn names<O>(settings: &ProducerSettings<O>, prefix: &str) -> Option<Vec<String>> {
    let client: BaseProducer = settings.inspection_config().create().ok()?;
    let metadata = client.client().fetch_metadata(None, ASK_MAX).ok()?;
    let names = metadata.topics().iter().map(MetadataTopic::name);
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect();
    names.sort_unstable();
    names.truncate(AGING_MAX);
    Some(names).filter(|names| !names.is_empty())
}
