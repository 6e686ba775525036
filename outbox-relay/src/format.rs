//! What is sent to Kafka for an event: the relay's own record, or another's.

use inbox_engine::internal::Rule;
use outbox_core::{OutboxEvent, Record};
use outbox_debezium::internal::{ROW, Router};

use crate::{
    config::{Config, Problem, RecordFormat},
    topic::Template,
};

/// How records are made.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    /// The relay's own.
    Own(Template),
    /// Debezium's.
    Debezium(Box<Router>),
}

/// A record, and where it goes.
pub(crate) struct Formatted {
    pub(crate) topic: String,
    /// `None`: the key decides.
    pub(crate) partition: Option<i32>,
    pub(crate) record: Record,
}

impl Format {
    /// The one that the configuration names.
    ///
    /// # Errors
    /// A sentence; `build` has seen to it.
    pub(crate) fn read(config: &Config) -> Result<Self, String> {
        match config.kafka.format {
            RecordFormat::Own => Template::read(&config.kafka.topic).map(Self::Own),
            RecordFormat::DebeziumOutbox => {
                Self::debezium(config).map_err(|wrong| wrong.join("; "))
            }
        }
    }

    /// What is wrong with the settings of the format that is asked for. Those of another are not looked at.
    pub(crate) fn problems(config: &Config) -> Vec<Problem> {
        if config.kafka.format == RecordFormat::Own || !config.reaches_kafka() {
            return Vec::new();
        }
        let wrong = Self::debezium(config).err().unwrap_or_default();
        wrong.into_iter().map(|text| Problem::fatal(&["kafka.format"], text)).collect()
    }

    fn debezium(config: &Config) -> Result<Self, Vec<String>> {
        Ok(Self::Debezium(Box::new(Router::read(&config.debezium)?)))
    }

    /// The topic of an event.
    ///
    /// # Errors
    /// One sentence, when there is none.
    pub(crate) fn topic(&self, event: &OutboxEvent) -> Result<String, String> {
        match self {
            Self::Own(template) => {
                let envelope = event.envelope();
                let kind = envelope.aggregate.aggregate_type();
                template.topic(event.topic(), kind, &envelope.event_type)
            }
            Self::Debezium(router) => router.topic(event),
        }
    }

    /// The record of an event that goes to this topic.
    ///
    /// # Errors
    /// One sentence, when it has none.
    pub(crate) fn record(&self, event: &OutboxEvent, topic: String) -> Result<Formatted, String> {
        match self {
            Self::Own(_) => {
                let mut record = event.record();
                // A row has it that was copied while the format was Debezium's.
                record.headers.retain(|header| header.name != ROW);
                if !Rule::TimeOfSending.on() {
                    record.timestamp_ms = event.envelope().occurred_at_ms;
                }
                Ok(Formatted { topic, partition: None, record })
            }
            Self::Debezium(router) => {
                let (record, partition) = router.record(event)?;
                Ok(Formatted { topic, partition, record })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use outbox_core::Aggregate;

    use super::*;

    #[test]
    fn what_the_trigger_tells_is_not_sent_in_the_relays_own_format() {
        let aggregate = Aggregate::new("order", "a").unwrap();
        let event = OutboxEvent::new("Paid", &aggregate, &1).unwrap();
        let event = event.with_header(ROW, "{}").unwrap().with_header("kept", "x").unwrap();
        let format = Format::Own(Template::read("orders").unwrap());
        let record = format.record(&event, "orders".into()).unwrap().record;
        assert!(record.headers.iter().any(|header| header.name == "kept"));
        assert!(record.headers.iter().all(|header| header.name != ROW));
    }
}
