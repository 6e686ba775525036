//! Creating and deleting topics, for [`crate::testing`].

use std::time::Duration;

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult},
    client::DefaultClientContext,
    error::KafkaError,
};

use crate::{broker::BrokerError, properties::refusal};

/// How long a broker may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long it may take until every broker knows what was done.
const SPREAD_MAX: Duration = Duration::from_secs(10);

/// Creates a topic at the Kafka at `bootstrap`, with as many replicas as its brokers make by default.
pub async fn create_topic(
    bootstrap: &str,
    topic: &str,
    partitions: u16,
) -> Result<(), BrokerError> {
    let new = NewTopic::new(topic, i32::from(partitions), TopicReplication::Fixed(-1));
    let answer = connect(bootstrap)?.create_topics([&new], &options()).await;
    accept(answer).map_err(|why| BrokerError(format!("the topic {topic} was not created: {why}")))
}

/// Deletes a topic, with everything in it.
pub async fn delete_topic(bootstrap: &str, topic: &str) -> Result<(), BrokerError> {
    let answer = connect(bootstrap)?.delete_topics(&[topic], &options()).await;
    accept(answer).map_err(|why| BrokerError(format!("the topic {topic} was not deleted: {why}")))
}

fn connect(bootstrap: &str) -> Result<AdminClient<DefaultClientContext>, BrokerError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config.create().map_err(|error| refusal(&error))
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_MAX)).operation_timeout(Some(SPREAD_MAX))
}

/// The answer for the one topic that was asked about.
fn accept(answer: Result<Vec<TopicResult>, KafkaError>) -> Result<(), String> {
    match answer.map_err(|error| error.to_string())?.pop() {
        Some(Err((_, code))) => Err(code.to_string()),
        Some(Ok(_)) | None => Ok(()),
    }
}
