//! A row, as the router sees it: columns by their names.

use std::borrow::Cow;

use outbox_core::OutboxEvent;

use crate::{
    connect::{Kind, Schema, Value},
    json::{self, Json},
    placement::ROW,
    settings::{Debezium, ValueConverter},
};

/// The columns of `outbox_events` that settings may name.
const OWN_COLUMNS: [&str; 8] = [
    "event_id",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "aggregate_version",
    "occurred_at_ms",
    "schema_version",
    "dedup_key",
];

/// What the topic follows from: the column of `outbox_events` that `route_by_field` names, else the aggregate's type, into
/// which `outbox-relay adopt` copies the column of another table.
///
/// # Errors
/// One sentence, when the column is null.
pub(crate) fn routed<'e>(
    event: &'e OutboxEvent,
    settings: &Debezium,
) -> Result<Cow<'e, str>, String> {
    let by = settings.route_by_field.as_str();
    let is_adopted = || event.headers().iter().any(|header| header.name == ROW);
    if by == "aggregate_type" || !OWN_COLUMNS.contains(&by) || is_adopted() {
        return Ok(Cow::Borrowed(event.envelope().aggregate.aggregate_type()));
    }
    match own_column(event, by).1 {
        Value::String(text) => Ok(Cow::Owned(text)),
        Value::Int(number) => Ok(Cow::Owned(number.to_string())),
        _ => Err(format!(
            "the row's column {by} is null, and `debezium.route_by_field` has its topic follow from it; discard the row and \
             append it with one"
        )),
    }
}

/// A row of another table, or one that was appended.
pub(crate) struct Row<'a> {
    pub(crate) event: &'a OutboxEvent,
    settings: &'a Debezium,
    adopted: Option<Adopted>,
}

struct Adopted {
    table: String,
    payload: Schema,
    columns: Vec<(String, Schema, Value)>,
}

impl<'a> Row<'a> {
    /// # Errors
    /// One sentence, when what the trigger wrote cannot be read.
    pub(crate) fn of(event: &'a OutboxEvent, settings: &'a Debezium) -> Result<Self, String> {
        let told = event.headers().iter().find(|header| header.name == ROW);
        let adopted = match told {
            None => None,
            Some(told) => Some(
                told.value.as_ref().and_then(|value| Adopted::read(value)).ok_or_else(|| {
                    format!(
                        "the row's header `{ROW}` was not written by the trigger of \
                            `outbox-relay adopt`; run it again, then correct the row or discard it"
                    )
                })?,
            ),
        };
        Ok(Self { event, settings, adopted })
    }

    /// The table's name, with its schema's where it is known.
    pub(crate) fn table(&self) -> &str {
        self.adopted.as_ref().map_or("outbox_events", |adopted| &adopted.table)
    }

    /// The payload with its column's schema.
    ///
    /// # Errors
    /// One sentence, when it is no text where it has to be.
    pub(crate) fn payload(&self) -> Result<(Schema, Value), String> {
        let payload = self.event.envelope().payload.clone();
        let schema = match &self.adopted {
            Some(adopted) => adopted.payload.clone(),
            None if self.settings.value_converter == ValueConverter::Bytes => {
                Schema::optional(Kind::Bytes)
            }
            None => column("jsonb"),
        };
        let value = match payload {
            None => Value::Null,
            Some(bytes) if schema.kind == Kind::Bytes => Value::Bytes(bytes),
            Some(bytes) => match String::from_utf8(bytes.into()) {
                Ok(text) => Value::String(text),
                Err(_) => {
                    return Err(
                        "the payload is not text; set `debezium.value_converter` to bytes \
                                for payloads of any kind"
                            .into(),
                    );
                }
            },
        };
        Ok((schema, value))
    }

    /// A column by its name. Of what was appended, the columns of `outbox_events` by their own names, else by those that the
    /// settings give them, and the headers; one that does not exist is null.
    ///
    /// # Errors
    /// One sentence, when the trigger did not tell it.
    pub(crate) fn column(&self, name: &str) -> Result<(Schema, Value), String> {
        if let Some(adopted) = &self.adopted {
            if let Some((_, schema, value)) = adopted.columns.iter().find(|(own, ..)| own == name) {
                return Ok((schema.clone(), value.clone()));
            }
            if name == self.settings.table_field_event_id {
                return Ok(own_column(self.event, "event_id"));
            }
            return Err(format!(
                "the row lacks the column {name}, which `[debezium]` names; run `outbox-relay \
                 adopt` again for future rows, and discard this one or correct its header `{ROW}`"
            ));
        }
        let Debezium {
            table_field_event_id: id,
            table_field_event_key: key,
            table_field_event_type: event_type,
            route_by_field: route,
            ..
        } = self.settings;
        let names = [
            (id, "event_id"),
            (key, "aggregate_id"),
            (event_type, "event_type"),
            (route, "aggregate_type"),
        ];
        let named = names.into_iter().find(|(named, _)| *named == name);
        let own = named.filter(|_| !OWN_COLUMNS.contains(&name)).map_or(name, |(_, own)| own);
        Ok(own_column(self.event, own))
    }
}

/// A column of `outbox_events`, or a header.
fn own_column(event: &OutboxEvent, name: &str) -> (Schema, Value) {
    let envelope = event.envelope();
    let aggregate = &envelope.aggregate;
    let text = |text: &str| Value::String(text.to_owned());
    let number = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
    match name {
        "event_id" => (column("uuid!"), text(&envelope.event_id.to_string())),
        "event_type" => (column("text!"), text(&envelope.event_type)),
        "aggregate_type" => (column("text!"), text(aggregate.aggregate_type())),
        "aggregate_id" => (column("text!"), text(aggregate.aggregate_id())),
        "aggregate_version" => (column("int8"), number(envelope.aggregate_version)),
        "occurred_at_ms" => (column("int8"), number(envelope.occurred_at_ms)),
        "schema_version" => (column("int4"), number(envelope.schema_version.map(i64::from))),
        "dedup_key" if event.dedup_key().is_some() => {
            (column("text"), event.dedup_key().map_or(Value::Null, text))
        }
        name => {
            let header = event.headers().iter().rev().find(|header| header.name == name);
            let value = header.and_then(|header| header.value.as_ref());
            let value = value.and_then(|value| std::str::from_utf8(value).ok());
            (column("text"), value.map_or(Value::Null, text))
        }
    }
}

fn column(name: &str) -> Schema {
    Schema::of_column(name).unwrap_or_else(|| unreachable!("{name} is a type of the table"))
}

impl Adopted {
    fn read(told: &[u8]) -> Option<Self> {
        let Json::Object(parts) = json::read(std::str::from_utf8(told).ok()?)? else { return None };
        let part = |name| parts.iter().find(|(own, _)| own == name).map(|(_, value)| value);
        let Json::String(table) = part("table")? else { return None };
        let Json::String(payload) = part("payload")? else { return None };
        let Json::Array(columns) = part("columns")? else { return None };
        let columns = columns.iter().map(|column| {
            let Json::Array(column) = column else { return None };
            let [Json::String(name), Json::String(kind), value] = &column[..] else { return None };
            let schema = Schema::of_column(kind)?;
            let value = read_value(&schema.kind, value)?;
            Some((name.clone(), schema, value))
        });
        let columns = columns.collect::<Option<_>>()?;
        Some(Self { table: table.clone(), payload: Schema::of_column(payload)?, columns })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "PostgreSQL wrote it as a number of 32 bits")]
#[expect(clippy::cast_precision_loss, reason = "PostgreSQL wrote it as such a number")]
fn read_value(kind: &Kind, value: &Json) -> Option<Value> {
    let number = || match value {
        Json::Int(value) => Some(*value as f64),
        Json::Double(value) => Some(*value),
        // What is no number in JSON.
        Json::String(text) => text.parse().ok(),
        _ => None,
    };
    Some(match (kind, value) {
        (_, Json::Null) => Value::Null,
        (Kind::String, Json::String(text)) => Value::String(text.clone()),
        (Kind::Boolean, Json::Boolean(value)) => Value::Boolean(*value),
        (Kind::Int16 | Kind::Int32 | Kind::Int64, Json::Int(value)) => Value::Int(*value),
        (Kind::Double, _) => Value::Double(number()?),
        (Kind::Float, _) => Value::Float(number()? as f32),
        _ => return None,
    })
}
