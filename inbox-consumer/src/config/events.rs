//! `[events]`: how records become events.

use outbox_core::{DebeziumRouter, IdScope, Part, Preset, Reader, RuleKeys, RulesError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use service_kit::{Kind, Setting, choice, section};

section! {
    /// `[events]`: how records become events.
    pub struct Events as "events" {
        /// The rules for reading records: `own`, the headers that outbox-core writes; `custom`, the
        /// rules below; or those of another system, listed in docs/formats.md.
        format: Format;
        /// The rules of the format `custom`; of other formats those that go before its own.
        rules: Option<RuleKeys> {
            /// Where the event's id is; required with the format `custom`. A place is
            /// `header:NAME`, `key`, `key:hex`, `pointer:/json/pointer`, `topic`, `topic:PRE*POST`
            /// (a part of its name) or `value:CONSTANT`; `envelope:/json/pointer` points into the
            /// envelope around the payload. `position` (topic, partition and offset) may be the
            /// last place of an id, for producers that send none.
            id;
            /// The scope in which an id that is not a UUID is unique.
            id_source = "`topic`";
            /// Where the event's type is, which selects the route; required with the format
            /// `custom`.
            type;
            /// The aggregate's id: events of one aggregate are handled in order. With a pointer
            /// into the payload the whole partition is one sequence. Changing it changes the lanes,
            /// once nothing is settled ahead of the watermark, and the queues of parked events.
            aggregate_id = "`key`";
            /// The aggregate's type. If it comes from a header, order is kept per type and id.
            aggregate_type = "`topic`";
            /// The aggregate's version after the event: an integer.
            aggregate_version;
            /// When the event occurred: milliseconds since 1970, or RFC 3339.
            occurred_at;
            /// The unit of a number in `rules.occurred_at`, counted from 1970; milliseconds by default.
            occurred_at_unit, of ["days", "seconds", "millis", "micros", "nanos"];
            /// The version of the payload's schema: an integer.
            schema_version;
        };
        /// With the format `debezium-outbox`: the settings of Debezium's outbox event router and of
        /// the connector's converters, under their own names, such as
        /// `"table.fields.additional.placement" = "type:header:eventType"`. docs/formats.md lists
        /// them.
        debezium: Option<DebeziumRouter>;
        /// Topics with a different format: tables `[[events.topics]]`, each with `topic`, `format`
        /// and, where needed, `rules` and `debezium`, as above. All other topics follow `[events]`.
        topics: EventTopics;
        /// The scope of event ids: all topics of the consumer, so that an event copied or moved to
        /// another topic is detected as a duplicate; or one topic, so that no producer can use the
        /// id of another topic's event. The database keeps the scope that a consumer started with.
        id_scope: IdScope;
        /// What happens to an event without a route: parked like any failure; settled and counted;
        /// or settled and sent to `events.dead_letter_topic` through the outbox.
        unknown_type: Unwanted;
        /// The same for a record that cannot be read as an event, exceeds `events.event_bytes_max`,
        /// or whose payload does not fit its handler's type. Ignored records are lost to this
        /// consumer.
        undecodable: Unwanted;
        /// The topic for `dead_letter`, which this consumer must not read. It needs a relay that ships the outbox.
        dead_letter_topic: Option<String>;
        /// What must match, besides type and aggregate, for a second event with a known id to be a
        /// duplicate and not a mismatch: the payload's bytes, or (`json`) the payload as JSON,
        /// regardless of key order and white space.
        content: Content;
        /// Larger records are not decoded; see `events.undecodable`.
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
                "`key.converter` in [{table}.debezium] writes keys by a schema of the registry, \
                 which are not text: set `{table}.rules.aggregate_id` to `key:hex`, or configure \
                 the connector with org.apache.kafka.connect.storage.StringConverter"
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
                "`{table}.format` is custom, but [{table}.rules] does not set the places of the \
                 event's parts; set at least `{table}.rules.id` and `{table}.rules.type`"
            )),
            (Format::Custom, Some(Err(part))) => Some(missing(table, part)),
            _ if !typed && self.preset().is_some_and(|preset| !preset.places_type()) => {
                Some(format!(
                    "`table.fields.additional.placement` in [{table}.debezium] places no column \
                     with the event's type; configure the connector to place it \
                     (`type:header:eventType`) and set the same here, or set `{table}.rules.type` \
                     to where it is, such as `value:OrderChanged` or `pointer:/type`"
                ))
            }
            _ => None,
        }
    }
}

fn missing(table: &str, part: Part) -> String {
    format!(
        "`{table}.rules.{}` is missing: set it in [{table}.rules] to a place such as header:NAME",
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
