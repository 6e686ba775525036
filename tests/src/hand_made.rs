//! The consumer of the loops that people write by hand, which ours is measured beside.

use inbox_consumer::config::Config;
use rdkafka::{
    ClientConfig,
    consumer::{Consumer as _, StreamConsumer},
};

/// Subscribed to the topics of a configuration from their beginning; it commits nothing by itself.
pub fn hand_made(config: &Config) -> StreamConsumer {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", &config.kafka.bootstrap)
        .set("group.id", config.group())
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    let topics: Vec<&str> = config.kafka.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics).expect("a subscription");
    consumer
}
