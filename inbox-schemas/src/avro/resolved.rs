//! What `apache-avro` has resolved for a reader's schema, as JSON.

use apache_avro::types::Value as Avro;
use serde_json::{Map, Value};

use super::{
    node::{At, Node, Nodes},
    text,
};

/// More bytes than the decimal with the most digits has.
const DECIMAL_BYTES: usize = 512;

/// The same value with all bytes that its decimals might have: `apache-avro` (0.22) resolves no decimal in fewer bytes
/// than its schema's greatest one takes, and writers write as few as they can.
pub(super) fn widened(value: Avro) -> Avro {
    match value {
        Avro::Decimal(decimal) => Avro::Decimal(match Vec::<u8>::try_from(&decimal) {
            Ok(bytes) if bytes.len() < DECIMAL_BYTES => {
                let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
                let mut wide = vec![if negative { 0xff } else { 0 }; DECIMAL_BYTES - bytes.len()];
                wide.extend(bytes);
                wide.into()
            }
            _ => decimal,
        }),
        Avro::Union(branch, value) => Avro::Union(branch, Box::new(widened(*value))),
        Avro::Array(values) => Avro::Array(values.into_iter().map(widened).collect()),
        Avro::Map(values) => {
            Avro::Map(values.into_iter().map(|(key, value)| (key, widened(value))).collect())
        }
        Avro::Record(fields) => {
            Avro::Record(fields.into_iter().map(|(name, value)| (name, widened(value))).collect())
        }
        other => other,
    }
}

/// The value for the root of the reader's schema.
pub(super) fn value(nodes: &Nodes, value: Avro) -> Result<Value, String> {
    Ok(at(nodes, nodes.root(), value)?)
}

fn at(nodes: &Nodes, place: At, value: Avro) -> Result<Value, &'static str> {
    Ok(match (nodes.get(place), value) {
        (Node::Union(branches), Avro::Union(branch, value)) => {
            let branch = usize::try_from(branch).ok().and_then(|branch| branches.get(branch));
            at(nodes, *branch.ok_or("a union has a branch that its schema lacks")?, *value)?
        }
        (_, Avro::Null) => Value::Null,
        (_, Avro::Boolean(value)) => value.into(),
        (_, Avro::Int(value)) => value.into(),
        (_, Avro::Long(value)) => value.into(),
        (_, Avro::Float(value)) => text::short_float(value),
        (_, Avro::Double(value)) => text::float(value),
        (_, Avro::Bytes(value) | Avro::Fixed(_, value)) => text::base64(&value),
        (_, Avro::String(value) | Avro::Enum(_, value)) => value.into(),
        (Node::Array(items), Avro::Array(values)) => {
            let values = values.into_iter().map(|value| at(nodes, *items, value));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        (Node::Map(of), Avro::Map(values)) => {
            let values = values.into_iter().map(|(key, value)| Ok((key, at(nodes, *of, value)?)));
            Value::Object(values.collect::<Result<Map<_, _>, &'static str>>()?)
        }
        (Node::Record(fields), Avro::Record(values)) => {
            let mut record = Map::new();
            for ((name, field), (_, value)) in fields.iter().zip(values) {
                record.insert(String::from(&**name), at(nodes, *field, value)?);
            }
            Value::Object(record)
        }
        (Node::Decimal { scale, .. }, Avro::Decimal(value)) => {
            text::decimal_of(&value.into(), *scale)?
        }
        (_, Avro::BigDecimal(value)) => value.to_plain_string().into(),
        (_, Avro::Uuid(value)) => value.to_string().into(),
        (_, Avro::Date(value)) => text::date(value)?,
        (_, Avro::TimeMillis(value)) => text::time(value.into(), 1_000)?,
        (_, Avro::TimeMicros(value)) => text::time(value, 1_000_000)?,
        (_, Avro::TimestampMillis(value)) => text::timestamp(value, 1_000, false)?,
        (_, Avro::TimestampMicros(value)) => text::timestamp(value, 1_000_000, false)?,
        (_, Avro::TimestampNanos(value)) => text::timestamp(value, 1_000_000_000, false)?,
        (_, Avro::LocalTimestampMillis(value)) => text::timestamp(value, 1_000, true)?,
        (_, Avro::LocalTimestampMicros(value)) => text::timestamp(value, 1_000_000, true)?,
        (_, Avro::LocalTimestampNanos(value)) => text::timestamp(value, 1_000_000_000, true)?,
        (_, Avro::Duration(value)) => {
            text::duration([value.months().into(), value.days().into(), value.millis().into()])
        }
        _ => return Err("it is not what the reader's schema describes"),
    })
}
