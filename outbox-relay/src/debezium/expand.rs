//! A payload that is JSON becomes a value with a schema of its own: the router's `table.expand.json.payload`.
//!
//! Its rules are followed to the letter, also where they are odd: a mixed array keeps the whole payload a string, while a
//! number beyond 64 bits, or an array at the top, ends Debezium's connector. Here such a row is set aside.

use std::collections::HashMap;

use super::{
    connect::{Kind, Schema, Value},
    json::Json,
};

/// What is left out of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    /// Null is kept.
    pub(super) nulls: bool,
    /// An empty array is kept.
    pub(super) empty_arrays: bool,
}

/// What came of a payload.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expanded {
    /// It is an object.
    Object(Schema, Value),
    /// It stays the text that it is, with its column's schema.
    Text,
    /// It stays that, without a schema: an empty array.
    Bare,
}

/// The router reads what begins like an object or an array.
pub(super) fn is_expanded(text: &str) -> bool {
    text.starts_with(['{', '['])
}

/// Expands a payload.
///
/// # Errors
/// One sentence, where Debezium's connector would stop.
pub(super) fn expand(text: &str, kept: Kept) -> Result<Expanded, String> {
    let Some(json) = is_expanded(text).then(|| super::json::read(text)).flatten() else {
        return Ok(Expanded::Text);
    };
    let schema = match kept.schema(Some("payload"), &json) {
        Ok(Some(schema)) => schema,
        Ok(None) => return Ok(Expanded::Bare),
        Err(NotUniform) => return Ok(Expanded::Text),
    };
    if matches!(json, Json::Array(_)) {
        return Err(
            "the payload is an array, and Debezium's connector stops at one that it is to expand"
                .into(),
        );
    }
    match value(&json, &schema) {
        Some(value) => Ok(Expanded::Object(schema, value)),
        None => Err("the payload has values in one array or field that do not go together, or a whole number beyond 64 \
                     bits, and Debezium's connector stops at one that it is to expand"
            .into()),
    }
}

/// What an array of nothing else holds.
static NULL: Json = Json::Null;

/// The elements of an array are not of one type, or a field has no name: the payload stays a string.
struct NotUniform;

impl Kept {
    /// The schema of a value; `None`: it is left out.
    fn schema(self, key: Option<&str>, json: &Json) -> Result<Option<Schema>, NotUniform> {
        let kind = match json {
            Json::Null if self.nulls => Kind::Bytes,
            Json::Null => return Ok(None),
            Json::Boolean(_) => Kind::Boolean,
            Json::Int(value) if i32::try_from(*value).is_ok() => Kind::Int32,
            Json::Int(_) => Kind::Int64,
            Json::Big | Json::Double(_) => Kind::Double,
            Json::String(_) => Kind::String,
            Json::Array(values) if values.is_empty() && self.empty_arrays => {
                Kind::Array(Box::new(Schema::optional(Kind::String)))
            }
            Json::Array(values) if values.is_empty() => return Ok(None),
            Json::Array(values) => Kind::Array(Box::new(self.items(key, values)?)),
            Json::Object(fields) => {
                let mut schemas = Vec::new();
                for (name, value) in fields {
                    let path = match key {
                        Some(key) if !key.trim().is_empty() => format!("{key}.{name}"),
                        _ => name.clone(),
                    };
                    if let Some(schema) = self.schema(Some(&path), value)? {
                        if name.is_empty() {
                            return Err(NotUniform);
                        }
                        schemas.push((name.clone(), schema));
                    }
                }
                let name = key.map(str::to_owned);
                return Ok(Some(Schema { name, ..Schema::optional(Kind::Struct(schemas)) }));
            }
        };
        Ok(Some(Schema::optional(kind)))
    }

    /// The schema of an array's elements.
    fn items(self, key: Option<&str>, values: &[Json]) -> Result<Schema, NotUniform> {
        let mut present = values.iter().filter(|value| **value != Json::Null);
        let first = present.next().unwrap_or(&NULL);
        let is_number = |json: &Json| matches!(json, Json::Int(_) | Json::Big | Json::Double(_));
        for value in present {
            let same = match (first, value) {
                (first, value) if is_number(first) && is_number(value) => {
                    self.schema(None, first)? == self.schema(None, value)?
                }
                (first, value) => std::mem::discriminant(first) == std::mem::discriminant(value),
            };
            if !same {
                return Err(NotUniform);
            }
        }
        if !matches!(first, Json::Object(_)) {
            return self.schema(None, first)?.ok_or(NotUniform);
        }
        // The router gathers these in a set without an order: where objects differ, so does the order of their fields
        // from one start of its to the next. Here it is that of the array.
        let mut schemas: Vec<Schema> = Vec::new();
        for object in values.iter().filter(|value| matches!(value, Json::Object(_))) {
            let schema = self.schema(key, object)?.ok_or(NotUniform)?;
            if !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        schemas.into_iter().reduce(merge).ok_or(NotUniform)
    }
}

/// Both structs' fields. What two of them have has the first one's schema, unless that is the one of null.
fn merge(left: Schema, right: Schema) -> Schema {
    let (Kind::Struct(mut fields), Kind::Struct(more)) = (left.kind, right.kind) else {
        unreachable!("only objects are merged")
    };
    for (name, schema) in more {
        match fields.iter_mut().find(|(known, _)| *known == name) {
            None => fields.push((name, schema)),
            Some((_, known)) if known.kind == Kind::Bytes && schema.kind != Kind::Bytes => {
                *known = schema;
            }
            Some(_) => {}
        }
    }
    Schema { kind: Kind::Struct(fields), optional: false, name: left.name, version: left.version }
}

/// The value by its schema; `None`: Connect refuses it.
fn value(json: &Json, schema: &Schema) -> Option<Value> {
    let value = match (json, &schema.kind) {
        (Json::Null, _) => Value::Null,
        (Json::Boolean(value), _) => Value::Boolean(*value),
        (Json::Int(value), Kind::Int32) if i32::try_from(*value).is_err() => return None,
        (Json::Int(value), Kind::Int64) if i32::try_from(*value).is_ok() => return None,
        (Json::Int(value), _) => Value::Int(*value),
        (Json::Double(value), _) => Value::Double(*value),
        (Json::String(text), _) => Value::String(text.clone()),
        (Json::Array(values), Kind::Array(items)) => {
            Value::Array(values.iter().map(|json| value(json, items)).collect::<Option<_>>()?)
        }
        (Json::Object(fields), Kind::Struct(schemas)) => {
            let fields: HashMap<&str, &Json> =
                fields.iter().map(|(name, json)| (name.as_str(), json)).collect();
            let field = |(name, schema): &(String, Schema)| {
                fields.get(name.as_str()).map_or(Some(Value::Null), |json| value(json, schema))
            };
            Value::Struct(schemas.iter().map(field).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    schema.takes(&value).then_some(value)
}
