//! Whose format the records are in: what is sent, and what ours is told to read it by.

use clap::ValueEnum;
use inbox_consumer::config::{Config, Format};
use xtask::failure::{Explain as _, Outcome};

use crate::plan::{Deposit, EVENT_TYPE, FIRST_MS};
use crate::registry;

/// What a payload of Avro is written by.
const SCHEMA: &str = r#"{"type": "record", "name": "Deposited", "fields": [
    {"name": "account", "type": "long"}, {"name": "amount", "type": "long"}, {"name": "sequence", "type": "long"},
    {"name": "currency", "type": "string"}, {"name": "note", "type": "string"}]}"#;

/// A format.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Headers that an outbox of ours writes.
    Own,
    /// Debezium's outbox event router, the payload as it is.
    Debezium,
    /// The same, the payload a JSON text that holds it: its `JsonConverter`, without schemas.
    DebeziumJson,
    /// A `CloudEvent` in structured mode.
    CloudEvent,
    /// Our headers, the payload of Avro in the wire format of a schema registry.
    Avro,
}

impl Form {
    /// All of them, ours first. A further format goes behind them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Own, Self::Debezium, Self::DebeziumJson, Self::CloudEvent, Self::Avro];

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Its name in tables.
    pub(crate) fn case(self) -> &'static str {
        match self {
            Self::Own => "formats-own",
            Self::Debezium => "formats-debezium",
            Self::DebeziumJson => "formats-debezium-json",
            Self::CloudEvent => "formats-cloudevent",
            Self::Avro => "formats-avro",
        }
    }

    /// What a topic's name ends with.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Own => "",
            Self::Debezium => "-debezium",
            Self::DebeziumJson => "-debezium-json",
            Self::CloudEvent => "-cloudevent",
            Self::Avro => "-avro",
        }
    }

    /// The headers of a record.
    pub(crate) fn headers(self, deposit: &Deposit) -> Vec<(&'static str, String)> {
        match self {
            Self::Own | Self::Avro => deposit.own_headers(),
            Self::Debezium | Self::DebeziumJson => {
                vec![("id", deposit.id.to_string()), ("eventType", EVENT_TYPE.to_owned())]
            }
            Self::CloudEvent => {
                vec![("content-type", "application/cloudevents+json".to_owned())]
            }
        }
    }

    /// The value of a record.
    pub(crate) fn value(self, deposit: &Deposit) -> Vec<u8> {
        let payload = deposit.payload();
        let text = match self {
            Self::Avro => return avro(deposit),
            Self::Own | Self::Debezium => payload,
            Self::DebeziumJson => serde_json::Value::from(payload).to_string(),
            Self::CloudEvent => format!(
                "{{\"specversion\":\"1.0\",\"id\":\"{}\",\"source\":\"/bench\",\"type\":\"{EVENT_TYPE}\",\"time\":\"{}\",\
                 \"partitionkey\":\"{}\",\"datacontenttype\":\"application/json\",\"data\":{payload}}}",
                deposit.id,
                time(deposit.time_ms()),
                deposit.key(),
            ),
        };
        text.into_bytes()
    }

    /// Tells ours how to read it.
    pub(crate) fn configure(self, config: &mut Config) -> Outcome {
        let doing = || "cannot configure the format".to_owned();
        let events = &mut config.events;
        events.format = match self {
            Self::Own => return Ok(()),
            Self::Avro => {
                config.schemas.registry = registry::serve(SCHEMA)?;
                return Ok(());
            }
            Self::Debezium | Self::DebeziumJson => Format::DebeziumOutbox,
            Self::CloudEvent => Format::CloudEvents,
        };
        let rules = r#"{"aggregate_type": "value:Account"}"#;
        events.rules = Some(serde_json::from_str(rules).explain(doing)?);
        let converter = match self {
            Self::Debezium => "org.apache.kafka.connect.storage.StringConverter",
            Self::DebeziumJson => "org.apache.kafka.connect.json.JsonConverter",
            Self::Own | Self::CloudEvent | Self::Avro => return Ok(()),
        };
        let settings = serde_json::json!({
            "table.fields.additional.placement": "type:header:eventType",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": converter,
            "value.converter.schemas.enable": false,
        });
        events.debezium = Some(serde_json::from_value(settings).explain(doing)?);
        Ok(())
    }
}

/// A payload in the wire format: a zero, the id of the schema, the fields in their order.
fn avro(deposit: &Deposit) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 1];
    let [account, amount, sequence] = deposit.numbers();
    for number in [account, amount, sequence] {
        put_long(&mut bytes, number);
    }
    for text in ["EUR", &deposit.note()] {
        put_long(&mut bytes, i64::try_from(text.len()).unwrap_or_default());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// A number as Avro has it: its sign in the last bit, then seven bits to a byte, the lowest first.
fn put_long(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    loop {
        let [low, ..] = rest.to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            return bytes.push(low & 0x7f);
        }
        bytes.push(low | 0x80);
    }
}

/// A time of the first day as text, RFC 3339.
fn time(ms: u64) -> String {
    let behind = ms.saturating_sub(FIRST_MS);
    let (s, ms) = (behind / 1_000, behind % 1_000);
    format!("2026-01-01T{:02}:{:02}:{:02}.{ms:03}Z", s / 3_600, s / 60 % 60, s % 60)
}
