//! `[events]`: how records become events.

use outbox_core::{DebeziumRouter, IdScope, Part, Preset, Reader, RuleKeys, RulesError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use service_kit::{Kind, Setting, choice, section};

section! {
    /// `[events]`: how records become events.
    pub struct Events as "events" {
        /// Which rules records are read by: `own`, the headers that outbox-core writes; `custom`, the rules below; or
        /// those of another system: docs/formats.md has what each reads.
        format: Format;
        /// The rules of the format `custom`; of other formats those that go before its own.
        rules: Option<RuleKeys> {
            /// Where the event's id is; the format `custom` needs it. A place is `header:NAME`, `key`, `key:hex`,
            /// `pointer:/json/pointer`, `topic`, `topic:PRE*POST` (a part of its name) or `value:CONSTANT`;
            /// `envelope:/json/pointer` in what a format has around the payload. `position`, which may be the last
            /// place of an id, is topic, partition and offset: for producers that send none.
            id;
            /// What an id that is no UUID is unique within.
            id_source = "`topic`";
            /// Where the event's type is, by which routes are found; the format `custom` needs it.
            type;
            /// What order is kept for. With a pointer into the payload the whole partition is one sequence. A change of
            /// it changes the lanes, once nothing is settled ahead of the watermark, and the queues of parked events.
            aggregate_id = "`key`";
            /// The aggregate's type. In a header it is part of what order is kept for: type and id.
            aggregate_type = "`topic`";
            /// The aggregate's version after the event: a whole number.
            aggregate_version;
            /// When it happened: milliseconds since 1970, or RFC 3339.
            occurred_at;
            /// What a number counts that stands for that time, from 1970; milliseconds where it is left out.
            occurred_at_unit, of ["days", "seconds", "millis", "micros", "nanos"];
            /// The version of the payload's schema: a whole number.
            schema_version;
        };
        /// With the format `debezium-outbox`: the settings of Debezium's outbox event router and of the connector's
        /// converters, under their own names, such as `"table.fields.additional.placement" =
        /// "type:header:eventType"`. docs/formats.md has all of them.
        debezium: Option<DebeziumRouter>;
        /// Topics that are read in another way: tables `[[events.topics]]`, each with `topic`, `format` and, where they
        /// are needed, `rules` and `debezium`, as above. All other topics are read as `[events]` says.
        topics: EventTopics;
        /// Where an event id is one event's: in all topics of the consumer, so that an event which is copied or
        /// moved to another topic is recognised; or in its topic, so that no producer can take the id of another
        /// topic's event. The database keeps what a consumer began with.
        id_scope: IdScope;
        /// What happens to an event that no route takes: parked as any failure; settled and counted; or settled,
        /// and sent to `events.dead_letter_topic` through the outbox.
        unknown_type: Unwanted;
        /// The same for a record that cannot be read as an event, is larger than `events.event_bytes_max`, or whose
        /// payload does not fit its handler's type. What is ignored is lost to this consumer.
        undecodable: Unwanted;
        /// Where `dead_letter` sends to: a topic that this consumer does not read. A relay has to ship the outbox.
        dead_letter_topic: Option<String>;
        /// What a second event with a known id must have in common with the first, besides type and aggregate, to
        /// be its copy and no mismatch: the payload's bytes, or (`json`) the payload as JSON, whatever the order of
        /// its keys and its white space.
        content: Content;
        /// A larger record is not decoded; see `events.undecodable`.
        event_bytes_max: usize = "1MiB", in 1KiB..=64MiB;
    }
}

choice! {
    /// Which rules records are read by.
    pub enum Format {
        /// The headers that outbox-core writes.
        Own = "own",
        /// `[events.rules]`.
        Custom = "custom",
        /// Debezium's outbox event router, by the settings of `[events.debezium]`.
        DebeziumOutbox = "debezium-outbox",
        /// `CloudEvents` 1.0, in binary and in structured mode.
        CloudEvents = "cloudevents",
        /// Changes of tables, by Debezium's connectors.
        DebeziumRaw = "debezium-raw",
        /// Spring Cloud Stream and Spring Kafka.
        SpringCloudStream = "spring-cloud-stream",
        /// `MassTransit`, in its envelope or with its headers.
        MassTransit = "masstransit",
        /// Domain events of Eventuate Tram.
        EventuateTram = "eventuate-tram",
    }
}

/// `[[events.topics]]`: how records of one topic become events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventTopic {
    /// A topic of `kafka.topics`.
    pub topic: String,
    /// Which rules its records are read by.
    pub format: Format,
    /// See [`Events::rules`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RuleKeys>,
    /// See [`Events::debezium`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debezium: Option<DebeziumRouter>,
}

/// The tables `[[events.topics]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTopics(pub Vec<EventTopic>);

impl Setting for EventTopics {
    const KIND: Kind = Kind::Tables;
    fn of(_: &str) -> Self {
        Self::default()
    }
    fn is_unset(&self) -> bool {
        self.0.is_empty()
    }
    fn write<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(output)
    }
    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let told = |error| de::Error::custom(format!("[[events.topics]]: {error}"));
        Vec::deserialize(input).map(Self).map_err(told)
    }
}

/// How records of some topics are read: the keys that say so.
#[derive(Clone, Copy)]
struct Reading<'c> {
    format: Format,
    rules: Option<&'c RuleKeys>,
    debezium: Option<&'c DebeziumRouter>,
}

impl Events {
    fn reading(&self) -> Reading<'_> {
        let Self { format, rules, debezium, .. } = self;
        Reading { format: *format, rules: rules.as_ref(), debezium: debezium.as_ref() }
    }

    /// What reads records of all topics.
    pub(super) fn reader(&self) -> Result<Reader, RulesError> {
        let reader = self.reading().reader(self.event_bytes_max)?;
        self.topics.0.iter().try_fold(reader, |reader, topic| {
            let own = topic.reading().reader(self.event_bytes_max)?;
            Ok(reader.with_topic(topic.topic.as_str(), own))
        })
    }

    /// What does not go together in how records are read.
    pub(super) fn reading_problems(&self, topics: &[String]) -> Vec<String> {
        let mut found = Vec::from_iter(self.reading().problem("events"));
        for (at, topic) in self.topics.0.iter().enumerate() {
            let name = &topic.topic;
            let problem = if !topics.contains(name) {
                Some("it is not in `kafka.topics`; add it there, or remove the table".to_owned())
            } else if self.topics.0[..at].iter().any(|earlier| earlier.topic == *name) {
                Some("there is another table for it; remove one of them".to_owned())
            } else {
                topic.reading().problem("events.topics")
            };
            found.extend(problem.map(|text| format!("[[events.topics]] of {name:?}: {text}")));
        }
        found
    }
}

impl Events {
    /// What is to be thought about in how records are read.
    pub(super) fn reading_doubts(&self) -> Vec<String> {
        let topics = self.topics.0.iter().map(|topic| (topic.reading(), "events.topics"));
        let all = std::iter::once((self.reading(), "events")).chain(topics);
        all.filter_map(|(reading, table)| reading.doubt(table)).collect()
    }
}

impl EventTopic {
    fn reading(&self) -> Reading<'_> {
        let Self { format, rules, debezium, .. } = self;
        Reading { format: *format, rules: rules.as_ref(), debezium: debezium.as_ref() }
    }
}

impl Reading<'_> {
    fn preset(self) -> Option<Preset> {
        match self.format {
            Format::Own | Format::Custom => None,
            Format::CloudEvents => Some(Preset::CloudEvents),
            Format::DebeziumRaw => Some(Preset::DebeziumRaw),
            Format::SpringCloudStream => Some(Preset::SpringCloudStream),
            Format::MassTransit => Some(Preset::MassTransit),
            Format::EventuateTram => Some(Preset::EventuateTram),
            Format::DebeziumOutbox => {
                Some(Preset::DebeziumOutbox(self.debezium.cloned().unwrap_or_default()))
            }
        }
    }

    fn reader(self, bytes_max: usize) -> Result<Reader, RulesError> {
        let none = RuleKeys::default();
        let keys = self.rules.unwrap_or(&none);
        match (self.preset(), keys.rules()) {
            (Some(preset), _) => Reader::preset(preset, keys, bytes_max),
            (None, Ok(rules)) if self.format == Format::Custom => Reader::new(rules, bytes_max),
            // What is not whole is a problem of its own, and nothing is read.
            (None, _) => Ok(Reader::own(bytes_max)),
        }
    }

    /// Keys that no rule reads.
    fn doubt(self, table: &str) -> Option<String> {
        let is_named = self.rules.is_some_and(|rules| rules.aggregate_id.is_some());
        let is_binary = self.debezium.is_some_and(DebeziumRouter::has_binary_keys);
        (is_binary && !is_named).then(|| {
            format!(
                "`key.converter` in [{table}.debezium] writes keys by a schema of the registry, which are no text: set \
                 `{table}.rules.aggregate_id` to `key:hex`, or let the connector have \
                 org.apache.kafka.connect.storage.StringConverter"
            )
        })
    }

    /// What does not go together, in one sentence. The keys are in `table`.
    fn problem(self, table: &str) -> Option<String> {
        let Self { format, rules, debezium } = self;
        if debezium.is_some() && format != Format::DebeziumOutbox {
            return Some(format!(
                "[{table}.debezium] is set but not used: `{table}.format` is {}; set it to debezium-outbox, or remove \
                 the settings",
                format.name()
            ));
        }
        let typed = rules.is_some_and(|rules| rules.event_type.is_some());
        match (format, rules.map(RuleKeys::rules)) {
            (Format::Own, Some(_)) => Some(format!(
                "[{table}.rules] is set but not used: `{table}.format` is own; set it to custom, or remove the rules"
            )),
            (Format::Custom, None) => Some(format!(
                "`{table}.format` is custom, but [{table}.rules] does not say where things are; set at least \
                 `{table}.rules.id` and `{table}.rules.type`"
            )),
            (Format::Custom, Some(Err(part))) => Some(missing(table, part)),
            _ if !typed && self.preset().is_some_and(|preset| !preset.places_type()) => {
                Some(format!(
                    "`table.fields.additional.placement` in [{table}.debezium] places no column with the event's type; \
                 let the connector place it (`type:header:eventType`) and set the same here, or set \
                 `{table}.rules.type` to where it is, such as `value:OrderChanged` or `pointer:/type`"
                ))
            }
            _ => None,
        }
    }
}

fn missing(table: &str, part: Part) -> String {
    format!(
        "`{table}.rules.{}` is missing: [{table}.rules] has to say where it is, such as header:NAME",
        part.key()
    )
}

choice! {
    /// What happens to what nobody can take.
    pub enum Unwanted {
        /// It is parked, as any failure.
        Park = "park",
        /// It is settled and counted.
        Ignore = "ignore",
        /// It is settled, and appended to the outbox for the topic of dead letters.
        DeadLetter = "dead_letter",
    }
}

choice! {
    /// How payloads of events with one id are compared.
    pub enum Content {
        /// Byte by byte.
        Bytes = "bytes",
        /// As JSON: the order of keys and white space do not count.
        Json = "json",
    }
}
