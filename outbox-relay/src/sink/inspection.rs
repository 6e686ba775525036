//! Looking at Kafka without writing.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rdkafka::{
    client::ClientContext,
    config::{FromClientConfigAndContext as _, RDKafkaLogLevel},
    error::KafkaError,
    message::DeliveryResult,
    producer::{BaseProducer, Producer, ProducerContext},
    types::RDKafkaErrorCode as Code,
};

use super::{
    SinkSettings, context,
    fault::{self, SendFault},
    settings::refusal,
};

/// How long a question to the brokers may take.
pub(super) const ASK_MAX: Duration = Duration::from_secs(5);
/// How often a topic that is not there is looked for.
const LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(400);

/// So many topics are asked for at the same time.
const ASK_AT_ONCE: usize = 16;

/// How a topic stands.
pub(crate) enum TopicStatus {
    There,
    Missing,
    Refused(Code),
    Unknown(String),
}

/// Asks for topics side by side, once each.
pub(super) fn statuses<C>(
    producer: &BaseProducer<C>,
    names: Vec<String>,
) -> Vec<(String, TopicStatus)>
where
    C: ProducerContext + ClientContext,
{
    let mut found = Vec::with_capacity(names.len());
    for names in names.chunks(ASK_AT_ONCE) {
        let ask = |name: &String| (name.clone(), topic(producer, name, 1));
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
fn topic<C>(producer: &BaseProducer<C>, name: &str, looks: u32) -> TopicStatus
where
    C: ProducerContext + ClientContext,
{
    let mut found = TopicStatus::Missing;
    for look in 0..looks {
        if look > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
        let metadata = match producer.client().fetch_metadata(Some(name), ASK_MAX) {
            Ok(metadata) => metadata,
            Err(error) => {
                return TopicStatus::Unknown(format!("querying the topic {name} failed: {error}"));
            }
        };
        let told = metadata.topics().iter().find(|topic| topic.name() == name);
        match told.and_then(rdkafka::metadata::MetadataTopic::error).map(Code::from) {
            None if told.is_some_and(|topic| !topic.partitions().is_empty()) => {
                return TopicStatus::There;
            }
            Some(Code::TopicAuthorizationFailed) => {
                return TopicStatus::Refused(Code::TopicAuthorizationFailed);
            }
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => {
                found = TopicStatus::Missing;
            }
            Some(code) if fault::classify(code) == SendFault::Record => {
                found = TopicStatus::Refused(code);
            }
            Some(Code::LeaderNotAvailable) => return TopicStatus::There,
            None | Some(_) => {}
        }
    }
    found
}

/// Why nobody answers: the first that the client says of it (later ones say that every broker is down for it), if
/// it is about TLS or credentials.
#[derive(Default)]
struct FirstReason(Mutex<Option<(Code, String)>>);

impl FirstReason {
    fn sentence(&self, bootstrap: &str) -> Option<String> {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, why) = first.as_ref()?;
        let trouble = context::trouble(*code, why);
        trouble.is_refusal().then(|| trouble.sentence(bootstrap, why))
    }
}

impl ClientContext for FirstReason {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| (code, reason.to_owned()));
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        tracing::debug!(target: "outbox_relay", ?level, "{facility} {text}");
    }
}

impl ProducerContext for FirstReason {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// Asks Kafka whether it is there, and after a topic. It fences nobody. Blocks: for a thread that may wait.
///
/// # Errors
/// When Kafka cannot be reached, or the settings make no client.
pub(crate) fn inspect(
    settings: &SinkSettings,
    name: Option<&str>,
) -> Result<Option<String>, String> {
    let config = settings.inspection_config();
    let client = BaseProducer::from_config_and_context(&config, FirstReason::default());
    let client = client.map_err(|error| refusal(&error))?;
    client.client().fetch_metadata(None, ASK_MAX).map_err(|error| {
        // What the client has to say waits in its queue.
        client.poll(Duration::from_millis(100));
        client.context().sentence(&settings.bootstrap).unwrap_or_else(|| {
            format!(
                "Kafka at {} does not answer ({error}); check `kafka.bootstrap`, the network, and \
                 whether the brokers require TLS or SASL",
                settings.bootstrap
            )
        })
    })?;
    Ok(match name.map(|name| (name, topic(&client, name, LOOKS))) {
        Some((name, TopicStatus::Missing)) => Some(fault::of_record(Code::UnknownTopic, name, 0)),
        Some((name, TopicStatus::Refused(code))) => Some(fault::of_record(code, name, 0)),
        Some((_, TopicStatus::Unknown(why))) => Some(why),
        Some((_, TopicStatus::There)) | None => None,
    })
}
