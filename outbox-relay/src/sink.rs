//! Kafka: the producer of kafka-kit, and whom it tells what goes wrong.

pub(crate) use kafka_kit::internal::Forbidden;
pub(crate) use kafka_kit::internal::producer::{
    ConnectError, OutgoingRecord, Refusal, Shipment, Sink, TopicStatus, TopicWait, inspect,
};
use kafka_kit::internal::producer::{Observer, ProducerSettings, Until};

#[cfg(feature = "cli")]
pub(crate) use kafka_kit::internal::producer::aging_topics;

use crate::{deadline::Deadline, telemetry::Troubles};

/// Where Kafka is, and how to write.
pub(crate) type SinkSettings = ProducerSettings<Troubles>;

impl Until for Deadline {
    fn passed(&self) -> bool {
        self.passed()
    }
}

impl Observer for Troubles {
    fn line(&self, is_debug: bool, facility: &str, line: &str) {
        if is_debug {
            tracing::debug!(target: "outbox_relay", "{facility} {line}");
        } else {
            self.line(facility, line);
        }
    }

    fn trouble(&self, error: String) {
        self.brokers(error);
    }

    fn is_doubtful(&self) -> bool {
        self.brokers_are_doubtful()
    }

    fn works(&self) {
        self.kafka_works();
    }
}
