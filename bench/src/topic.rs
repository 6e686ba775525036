//! Topics, filled once for each plan and kept for later runs.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use xtask::failure::{Explain as _, Outcome, failure};

use crate::plan::{Deposit, PARTITIONS, Plan};

const CALL_MAX: Duration = Duration::from_secs(30);
/// How long the last records may take to be acknowledged.
const FLUSH_MAX: Duration = Duration::from_mins(2);

/// The topic of a plan: the one of an earlier run if it is complete, else a new one. Blocks its thread.
pub(crate) fn filled(kafka: &str, name: &str, plan: Plan) -> Outcome {
    let present = records(kafka, name)?;
    if present == Some(plan.records) {
        return Ok(());
    }
    if present.is_some() {
        return failure(format!(
            "the topic {name} is there with other records, perhaps of a bench that was ended early: delete it"
        ));
    }
    create(kafka, name)?;
    println!("filling topic {name} with {} records", plan.records);
    fill(kafka, name, plan)?;
    match records(kafka, name)? {
        Some(count) if count == plan.records => Ok(()),
        count => failure(format!("topic {name} has {count:?} records instead of {}", plan.records)),
    }
}

/// How many records a topic has; nothing if there is no such topic.
pub(crate) fn records(kafka: &str, name: &str) -> Outcome<Option<u64>> {
    let doing = || format!("cannot look at topic {name}");
    let client: BaseConsumer = settings(kafka).create().explain(doing)?;
    let metadata = client.fetch_metadata(Some(name), CALL_MAX).explain(doing)?;
    let known = metadata.topics().iter().find(|topic| topic.error().is_none());
    let Some(topic) = known.filter(|topic| !topic.partitions().is_empty()) else { return Ok(None) };
    let mut count = 0;
    for partition in topic.partitions() {
        let (low, high) = client.fetch_watermarks(name, partition.id(), CALL_MAX).explain(doing)?;
        count += u64::try_from(high - low).unwrap_or_default();
    }
    Ok(Some(count))
}

/// A new topic.
pub(crate) fn create(kafka: &str, name: &str) -> Outcome {
    create_with(kafka, name, ("message.timestamp.type", "CreateTime"))
}

/// The same with a setting.
pub(crate) fn create_with(kafka: &str, name: &str, (key, value): (&str, &str)) -> Outcome {
    let doing = || format!("cannot create topic {name}");
    let admin: AdminClient<DefaultClientContext> = settings(kafka).create().explain(doing)?;
    let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1))
        // It is read again by every run.
        .set("retention.ms", "-1")
        .set(key, value);
    let options = AdminOptions::new().operation_timeout(Some(CALL_MAX));
    let created = futures::executor::block_on(admin.create_topics([&topic], &options));
    for result in created.explain(doing)? {
        if let Err((_, code)) = result {
            return failure(format!("the broker does not create topic {name}: {code}"));
        }
    }
    Ok(())
}

/// Sends all records of a plan.
pub(crate) fn fill(kafka: &str, name: &str, plan: Plan) -> Outcome {
    let doing = || format!("cannot fill topic {name}");
    let producer = producer(kafka, "20")?;
    for deposit in plan.deposits() {
        send(&producer, name, &deposit).explain(doing)?;
    }
    flush(&producer, name)
}

/// Waits until everything is acknowledged.
pub(crate) fn flush(producer: &BaseProducer, name: &str) -> Outcome {
    producer.flush(FLUSH_MAX).explain(|| format!("topic {name} does not take all records"))
}

/// A producer that waits so many milliseconds for more records of a batch.
pub(crate) fn producer(kafka: &str, linger_ms: &str) -> Outcome<BaseProducer> {
    let mut settings = settings(kafka);
    settings.set("enable.idempotence", "true").set("linger.ms", linger_ms);
    settings.set("queue.buffering.max.messages", "200000").set("message.max.bytes", "2000000");
    settings.create().explain(|| "cannot make a producer".to_owned())
}

/// Deletes a topic.
pub(crate) fn delete(kafka: &str, name: &str) -> Outcome {
    let doing = || format!("cannot delete topic {name}");
    let admin: AdminClient<DefaultClientContext> = settings(kafka).create().explain(doing)?;
    let options = AdminOptions::new().operation_timeout(Some(CALL_MAX));
    let deleted = futures::executor::block_on(admin.delete_topics(&[name], &options));
    deleted.explain(doing).map(drop)
}

/// Puts a record into the producer's queue, waiting while that is full.
pub(crate) fn send(
    producer: &BaseProducer,
    name: &str,
    deposit: &Deposit,
) -> Result<(), KafkaError> {
    let (key, payload, headers) = (deposit.key(), deposit.value(), owned(deposit));
    let mut next = BaseRecord::to(name)
        .partition(deposit.partition())
        .key(&key)
        .payload(&payload)
        .headers(headers);
    loop {
        match producer.send(next) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                producer.poll(Duration::from_millis(10));
                next = back;
            }
            Err((error, _)) => return Err(error),
        }
    }
}

fn owned(deposit: &Deposit) -> OwnedHeaders {
    let headers = deposit.headers();
    let none = OwnedHeaders::new_with_capacity(headers.len());
    headers.iter().fold(none, |all, (key, value)| all.insert(Header { key, value: Some(value) }))
}

/// What every client of the bench is told.
pub(crate) fn settings(kafka: &str) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", kafka);
    settings
}
