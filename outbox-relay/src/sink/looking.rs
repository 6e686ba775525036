//! Looking at Kafka without writing.

use std::time::Duration;

use rdkafka::{
    client::ClientContext,
    producer::{BaseProducer, DefaultProducerContext, Producer, ProducerContext},
    types::RDKafkaErrorCode as Code,
};

use super::{
    SinkSettings,
    fault::{self, Fault},
    settings::refusal,
};

/// How long a question to the brokers may take.
const ASK_MAX: Duration = Duration::from_secs(5);
/// How often a topic that is not there is looked for.
const LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// How a topic stands.
pub(super) enum Topic {
    There,
    Refused(Code),
    Unknown(String),
}

/// Asks for a topic, several times before it counts as missing.
pub(super) fn topic<C>(producer: &BaseProducer<C>, name: &str) -> Topic
where
    C: ProducerContext + ClientContext,
{
    let mut refused = Code::UnknownTopic;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
        let metadata = match producer.client().fetch_metadata(Some(name), ASK_MAX) {
            Ok(metadata) => metadata,
            Err(error) => return Topic::Unknown(format!("asking for the topic {name}: {error}")),
        };
        let found = metadata.topics().iter().find(|topic| topic.name() == name);
        match found.and_then(rdkafka::metadata::MetadataTopic::error).map(Code::from) {
            None if found.is_some_and(|topic| !topic.partitions().is_empty()) => {
                return Topic::There;
            }
            Some(Code::TopicAuthorizationFailed) => {
                return Topic::Refused(Code::TopicAuthorizationFailed);
            }
            Some(code) if fault::classify(code) == Fault::Record => refused = code,
            Some(Code::LeaderNotAvailable) => return Topic::There,
            None | Some(_) => {}
        }
    }
    Topic::Refused(refused)
}

/// Asks Kafka whether it is there, and after a topic. It fences nobody. Blocks: for a thread that may wait.
///
/// # Errors
/// When Kafka cannot be reached, or the settings make no client.
pub(crate) fn look(settings: &SinkSettings, name: Option<&str>) -> Result<Option<String>, String> {
    let client: BaseProducer<DefaultProducerContext> =
        settings.looking_config().create().map_err(|error| refusal(&error))?;
    client.client().fetch_metadata(None, ASK_MAX).map_err(|error| {
        format!(
            "Kafka at {} does not answer ({error}); check `kafka.bootstrap`, the network, and whether \
             the brokers want TLS or SASL",
            settings.bootstrap
        )
    })?;
    Ok(match name.map(|name| (name, topic(&client, name))) {
        Some((name, Topic::Refused(code))) => Some(fault::of_record(code, name, 0)),
        Some((_, Topic::Unknown(why))) => Some(why),
        Some((_, Topic::There)) | None => None,
    })
}
