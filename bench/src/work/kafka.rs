//! Kafka alone: how fast records come at all.

use std::time::{Duration, SystemTime};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use xtask::failure::{Explain as _, Outcome};

use super::Times;
use crate::options::Order;
use crate::topic::settings;

pub(super) async fn run(order: Order) -> Outcome<Times> {
    let counting = tokio::task::spawn_blocking(move || count(&order));
    counting.await.explain(|| "the thread that polls".to_owned())?
}

fn count(order: &Order) -> Outcome<Times> {
    let doing = || format!("cannot consume {}", order.topic);
    let consumer = subscribed(order)?;
    let mut began = None;
    let mut count = 0;
    while count < order.records {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        match message {
            Err(error) if passing(&error) => continue,
            message => drop(message.explain(doing)?),
        }
        began.get_or_insert_with(SystemTime::now);
        count += 1;
    }
    let ended = SystemTime::now();
    Ok(Times { began: began.unwrap_or(ended), ended })
}

/// Whether an error tells of a connection only: librdkafka makes it anew by itself.
pub(super) fn passing(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| {
        matches!(code, RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::BrokerTransportFailure)
    })
}

/// A consumer of the topic from its beginning; it commits offsets when it is told to.
pub(super) fn subscribed(order: &Order) -> Outcome<BaseConsumer> {
    let doing = || format!("cannot consume {}", order.topic);
    let consumer: BaseConsumer = settings(&order.kafka)
        .set("group.id", &order.group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        // Without it a partition whose queue was full is not read for a second.
        .set("fetch.queue.backoff.ms", "2")
        .create()
        .explain(doing)?;
    consumer.subscribe(&[&order.topic]).explain(doing)?;
    Ok(consumer)
}
