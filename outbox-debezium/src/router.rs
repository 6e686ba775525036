//! The router: a row in, a record out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use outbox_core::{Header, OutboxEvent, Record, Text};

use crate::{
    connect::{Kind, Schema, Value},
    converter,
    expand::{Expanded, Kept, expand},
    placement::{Place, Placement},
    row::{Row, routed},
    settings::{Debezium, EmptyArrayBehavior, KeyConverter, NullBehavior, ValueConverter},
    topic::TopicRule,
};

/// How many names of schemas are remembered.
const NAMES_MAX: usize = 1000;
/// How large a schema is remembered, in bytes: all of them are kept for ever.
const REMEMBERED_MAX: usize = 16 * 1024;

/// The settings, read. Clones share what they remember.
#[derive(Clone, Debug)]
pub struct Router {
    settings: Arc<Debezium>,
    topic: TopicRule,
    placements: Vec<Placement>,
    /// Those that every record begins with.
    context: Vec<Header>,
    /// What an envelope's schema is called, by the schema of its payload: after the first event that had that one, as the
    /// router's are.
    names: Arc<Mutex<HashMap<Schema, String>>>,
}

impl Router {
    /// Reads the settings.
    ///
    /// # Errors
    /// A sentence for each setting that cannot be followed.
    pub fn read(settings: &Debezium) -> Result<Self, Vec<String>> {
        let mut wrong = conflicts(settings);
        let topic = TopicRule::read(&settings.route_topic_regex, &settings.route_topic_replacement);
        let placements = Placement::read(&settings.table_fields_additional_placement)
            .map_err(|error| format!("`debezium.table_fields_additional_placement`: {error}"));
        let (topic, placements) = match (topic, placements) {
            (Ok(topic), Ok(placements)) => (topic, placements),
            (topic, placements) => {
                wrong.extend(topic.err().into_iter().chain(placements.err()));
                return Err(wrong);
            }
        };
        let envelope = placements.iter().any(|placement| placement.place == Place::Envelope);
        if envelope && settings.value_converter != ValueConverter::Json {
            wrong.push(
                "`debezium.table_fields_additional_placement` makes an envelope, which requires a \
                 JsonConverter; set `debezium.value_converter` to json"
                    .into(),
            );
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let context = settings.topic_prefix.as_deref().map_or_else(Vec::new, context);
        let settings = Arc::new(settings.clone());
        Ok(Self { settings, topic, placements, context, names: Arc::default() })
    }

    /// The topic of an event. One of the row's own goes before the settings'.
    ///
    /// # Errors
    /// One sentence, when it is no name of a topic.
    pub fn topic(&self, event: &OutboxEvent) -> Result<String, String> {
        let topic = match event.topic() {
            Some(topic) => topic.to_owned(),
            None => self.topic.topic(&routed(event, &self.settings)?),
        };
        if topic.is_empty() {
            return Err("`debezium.route_topic_replacement` gives the row no topic".into());
        }
        service_kit::topic_name(&topic)
            .map_err(|problem| format!("the row's topic is {topic:?}, which {problem}"))?;
        Ok(topic)
    }

    /// The record of an event, and the partition that a column names for it.
    ///
    /// # Errors
    /// One sentence, for a row that Debezium's connector would not get over.
    pub fn record(&self, event: &OutboxEvent) -> Result<(Record, Option<i32>), String> {
        let row = Row::of(event, &self.settings)?;
        let mut headers = self.context.clone();
        headers.push(header("id", &row.column(&self.settings.table_field_event_id)?.1));
        let (mut partition, mut fields) = (None, Vec::new());
        for Placement { column, place, alias } in &self.placements {
            let (schema, value) = row.column(column)?;
            match place {
                Place::Header => headers.push(header(alias, &value)),
                Place::Envelope => fields.push((alias.clone(), schema, value)),
                Place::Partition => partition = partition_of(column, &value)?,
            }
        }
        let (key_schema, key) = row.column(&self.settings.table_field_event_key)?;
        let record = Record {
            key: self.key(&key_schema, &key),
            headers,
            payload: self.value(&row, fields)?,
            timestamp_ms: self.timestamp(event)?,
        };
        Ok((record, partition))
    }

    fn key(&self, schema: &Schema, key: &Value) -> Option<Bytes> {
        match self.settings.key_converter {
            KeyConverter::String => converter::string(key),
            KeyConverter::Json => {
                Some(converter::json(Some(schema), key, self.settings.key_converter_schemas_enable))
            }
        }
    }

    fn timestamp(&self, event: &OutboxEvent) -> Result<Option<i64>, String> {
        let occurred = event.envelope().occurred_at_ms;
        match self.settings.table_field_event_timestamp.as_ref().and(occurred) {
            Some(..0) => {
                Err("the event's timestamp is before 1970, which Kafka does not accept".into())
            }
            timestamp => Ok(timestamp),
        }
    }

    fn value(
        &self,
        row: &Row<'_>,
        fields: Vec<(String, Schema, Value)>,
    ) -> Result<Option<Bytes>, String> {
        let settings = &*self.settings;
        let (schema, payload) = row.payload()?;
        let blank = match &payload {
            Value::Null => true,
            Value::String(text) => text.trim_matches(|c| c <= ' ').is_empty(),
            _ => false,
        };
        if blank && settings.route_tombstone_on_empty_payload {
            return Ok(None);
        }
        let (schema, payload) = match &payload {
            Value::String(text) if settings.table_expand_json_payload => {
                match expand(text, kept(settings))? {
                    Expanded::Object(schema, value) => (Some(schema), value),
                    Expanded::Bare => (None, payload),
                    Expanded::Text => (Some(schema), payload),
                }
            }
            _ => (Some(schema), payload),
        };
        let (schema, value) = if fields.is_empty() {
            (schema, payload)
        } else {
            let schema = schema.ok_or(
                "the payload is an empty array, which cannot be expanded into an envelope, as in \
                 Debezium's connector",
            )?;
            let (schema, value) = self.envelope(row, (schema, payload), fields)?;
            (Some(schema), value)
        };
        match (settings.value_converter, value) {
            (ValueConverter::String, Value::Bytes(_)) => Err(
                "the payload's column contains bytes, which a StringConverter cannot write; set \
                 `debezium.value_converter` to bytes"
                    .into(),
            ),
            (ValueConverter::String, value) => Ok(converter::string(&value)),
            (ValueConverter::Json, value) => Ok(Some(converter::json(
                schema.as_ref(),
                &value,
                settings.value_converter_schemas_enable,
            ))),
            (ValueConverter::Bytes, Value::Null) => Ok(None),
            (ValueConverter::Bytes, Value::Bytes(bytes)) => Ok(Some(bytes)),
            (ValueConverter::Bytes, _) => Err(
                "the payload's column contains text, which a ByteArrayConverter cannot write; set \
                 `debezium.value_converter` to string or json"
                    .into(),
            ),
        }
    }

    /// The payload with further columns beside it.
    fn envelope(
        &self,
        row: &Row<'_>,
        (payload_schema, payload): (Schema, Value),
        fields: Vec<(String, Schema, Value)>,
    ) -> Result<(Schema, Value), String> {
        let has_schema = self.settings.value_converter_schemas_enable;
        let name = has_schema.then(|| self.envelope_name(row, &payload_schema)).transpose()?;
        let mut schemas = vec![("payload".to_owned(), payload_schema)];
        let mut values = vec![payload];
        for (name, schema, value) in fields {
            schemas.push((name, schema));
            values.push(value);
        }
        let schema = Schema { kind: Kind::Struct(schemas), optional: false, name, version: None };
        Ok((schema, Value::Struct(values)))
    }

    fn envelope_name(&self, row: &Row<'_>, payload: &Schema) -> Result<String, String> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(payload) {
            return Ok(name.clone());
        }
        let prefix = self.settings.topic_prefix.iter().map(|prefix| format!("{prefix}."));
        let name: String = prefix.collect();
        let routed = routed(row.event, &self.settings)?;
        let name = format!("{name}{}.{routed}.Value", row.table());
        if names.len() < NAMES_MAX && payload.size() <= REMEMBERED_MAX {
            names.insert(payload.clone(), name.clone());
        }
        Ok(name)
    }
}

/// What does not go together.
fn conflicts(settings: &Debezium) -> Vec<String> {
    let mut wrong = Vec::new();
    if settings.table_expand_json_payload && settings.value_converter != ValueConverter::Json {
        wrong.push(
            "`debezium.table_expand_json_payload` makes objects, which require a JsonConverter; \
             set `debezium.value_converter` to json"
                .into(),
        );
    }
    wrong
}

fn kept(settings: &Debezium) -> Kept {
    Kept {
        nulls: settings.table_json_payload_null_behavior == NullBehavior::OptionalBytes,
        empty_arrays: settings.table_json_payload_empty_array_behavior
            == EmptyArrayBehavior::OptionalString,
    }
}

fn header(name: &str, value: &Value) -> Header {
    Header { name: name.into(), value: converter::header(value).map(Bytes::from) }
}

/// What Debezium tells of itself in each record; the last one is another with each start.
fn context(prefix: &str) -> Vec<Header> {
    let run = uuid::Uuid::now_v7().to_string();
    let parts = [
        ("__debezium.context.connectorLogicalName", prefix),
        ("__debezium.context.taskId", "0"),
        ("__debezium.context.connectorName", "postgresql"),
        ("__debezium.context.runId", &run),
    ];
    let header = |(name, value): (&'static str, &str)| Header {
        name: Text::from_static(name),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    };
    parts.map(header).to_vec()
}

fn partition_of(column: &str, value: &Value) -> Result<Option<i32>, String> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::Int(number) => i32::try_from(*number).ok().filter(|number| *number >= 0),
        _ => None,
    };
    number.map(Some).ok_or_else(|| {
        format!("the column {column} contains no partition number: write an integer from 0")
    })
}
