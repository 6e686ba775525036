//! A payload that is JSON becomes a value with a schema of its own: the router's `table.expand.json.payload`.
//!
//! Its rules are followed to the letter, also where they are odd: a mixed array keeps the whole payload a string, while a
//! number beyond 64 bits, or an array at the top, ends Debezium's connector. Here such a row is set aside.

use std::collections::HashMap;

use crate::{
    connect::{Kind, Schema, Value},
    json::Json,
};

/// What is left out of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// Null is kept.
    pub(crate) nulls: bool,
    /// An empty array is kept.
    pub(crate) empty_arrays: bool,
}

/// What came of a payload.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expanded {
    /// It is an object.
    Object(Schema, Value),
    /// It stays the text that it is, with its column's schema.
    Text,
    /// It stays that, without a schema: an empty array.
    Bare,
}

/// The router reads what begins like an object or an array.
pub(crate) fn is_expanded(text: &str) -> bool {
    text.starts_with(['{', '['])
}

/// Expands a payload.
///
/// # Errors
/// One sentence, where Debezium's connector would stop.
pub(crate) fn expand(text: &str, kept: Kept) -> Result<Expanded, String> {
    let Some(json) = is_expanded(text).then(|| crate::json::read(text)).flatten() else {
        return Ok(Expanded::Text);
    };
    let mut expansion = Expansion { kept, left: VALUES_MAX };
    let schema = match expansion.schema(Some("payload"), &json) {
        Ok(Some(schema)) => schema,
        Ok(None) => return Ok(Expanded::Bare),
        Err(Unfit::NotUniform) => return Ok(Expanded::Text),
        Err(Unfit::Large) => return Err(LARGE.into()),
    };
    if matches!(json, Json::Array(_)) {
        return Err(
            "the payload is an array, which cannot be expanded, as in Debezium's connector".into(),
        );
    }
    let mut left = VALUES_MAX;
    match value(&json, &schema, &mut left) {
        Ok(value) => Ok(Expanded::Object(schema, value)),
        Err(why) => Err(why.into()),
    }
}

/// How many values a payload may expand to. Each object of an array gets the fields of all others, so a small payload could
/// take all memory.
const VALUES_MAX: usize = 1_000_000;

const LARGE: &str = "the payload expands to more than 1000000 values (each object of an array \
                     gets the fields of all others), so it is not sent";
const CONTRADICTORY: &str = "the payload has incompatible values in one array or field, or an \
                             integer beyond 64 bits, and cannot be expanded, as in Debezium's \
                             connector";

/// What a field counts as: a long name is written with each value, so it counts as more than one.
fn cost(name: &str) -> usize {
    1 + name.len() / 64
}

fn spend(left: &mut usize, cost: usize) -> Option<()> {
    *left = left.checked_sub(cost)?;
    Some(())
}

/// What an array of nothing else holds.
static NULL: Json = Json::Null;

/// Why there is no schema.
enum Unfit {
    /// The elements of an array are not of one type, or a field has no name: the payload stays a string.
    NotUniform,
    /// It would be too large.
    Large,
}

struct Expansion {
    kept: Kept,
    /// How much more the schemas may hold: a name has those of all objects around it before it.
    left: usize,
}

impl Expansion {
    /// The schema of a value; `None`: it is left out.
    fn schema(&mut self, key: Option<&str>, json: &Json) -> Result<Option<Schema>, Unfit> {
        let kind = match json {
            Json::Null if self.kept.nulls => Kind::Bytes,
            Json::Null => return Ok(None),
            Json::Boolean(_) => Kind::Boolean,
            Json::Int(value) if i32::try_from(*value).is_ok() => Kind::Int32,
            Json::Int(_) => Kind::Int64,
            Json::Big | Json::Double(_) => Kind::Double,
            Json::String(_) => Kind::String,
            Json::Array(values) if values.is_empty() && self.kept.empty_arrays => {
                Kind::Array(Box::new(Schema::optional(Kind::String)))
            }
            Json::Array(values) if values.is_empty() => return Ok(None),
            Json::Array(values) => Kind::Array(Box::new(self.items(key, values)?)),
            Json::Object(fields) => {
                spend(&mut self.left, cost(key.unwrap_or_default())).ok_or(Unfit::Large)?;
                let mut schemas = Vec::new();
                for (name, value) in fields {
                    let path = match key {
                        Some(key) if !key.trim().is_empty() => format!("{key}.{name}"),
                        _ => name.clone(),
                    };
                    spend(&mut self.left, cost(&path)).ok_or(Unfit::Large)?;
                    if let Some(schema) = self.schema(Some(&path), value)? {
                        if name.is_empty() {
                            return Err(Unfit::NotUniform);
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
    fn items(&mut self, key: Option<&str>, values: &[Json]) -> Result<Schema, Unfit> {
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
                return Err(Unfit::NotUniform);
            }
        }
        if !matches!(first, Json::Object(_)) {
            return self.schema(None, first)?.ok_or(Unfit::NotUniform);
        }
        // The router gathers these in a set without an order: where objects differ, so does the order of their fields
        // from one start of its to the next. Here it is that of the array.
        let mut schemas: Vec<Schema> = Vec::new();
        for object in values.iter().filter(|value| matches!(value, Json::Object(_))) {
            let schema = self.schema(key, object)?.ok_or(Unfit::NotUniform)?;
            if schemas.first() != Some(&schema) {
                schemas.push(schema);
            }
        }
        merged(schemas).ok_or(Unfit::NotUniform)
    }
}

/// All structs' fields. What several of them have has the first one's schema, unless that is the one of null.
fn merged(mut schemas: Vec<Schema>) -> Option<Schema> {
    if schemas.len() < 2 {
        return schemas.pop();
    }
    let name = schemas.first()?.name.clone();
    let mut fields: Vec<(String, Schema)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for schema in schemas {
        let Kind::Struct(more) = schema.kind else { unreachable!("only objects are merged") };
        for (name, schema) in more {
            match places.get(&name).and_then(|&place| fields.get_mut(place)) {
                None => {
                    places.insert(name.clone(), fields.len());
                    fields.push((name, schema));
                }
                Some((_, known)) if known.kind == Kind::Bytes && schema.kind != Kind::Bytes => {
                    *known = schema;
                }
                Some(_) => {}
            }
        }
    }
    Some(Schema { kind: Kind::Struct(fields), optional: false, name, version: None })
}

/// The value by its schema.
///
/// # Errors
/// One sentence, where Connect refuses it or it takes more than is `left`.
fn value(json: &Json, schema: &Schema, left: &mut usize) -> Result<Value, &'static str> {
    let value = match (json, &schema.kind) {
        (Json::Null, _) => Value::Null,
        (Json::Boolean(value), _) => Value::Boolean(*value),
        (Json::Int(value), Kind::Int32) if i32::try_from(*value).is_err() => {
            return Err(CONTRADICTORY);
        }
        (Json::Int(value), Kind::Int64) if i32::try_from(*value).is_ok() => {
            return Err(CONTRADICTORY);
        }
        (Json::Int(value), _) => Value::Int(*value),
        (Json::Double(value), _) => Value::Double(*value),
        (Json::String(text), _) => Value::String(text.clone()),
        (Json::Array(values), Kind::Array(items)) => {
            spend(left, values.len()).ok_or(LARGE)?;
            let values = values.iter().map(|json| value(json, items, left));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        (Json::Object(fields), Kind::Struct(schemas)) => {
            spend(left, schemas.iter().map(|(name, _)| cost(name)).sum()).ok_or(LARGE)?;
            let fields: HashMap<&str, &Json> =
                fields.iter().map(|(name, json)| (name.as_str(), json)).collect();
            let field = |(name, schema): &(String, Schema)| match fields.get(name.as_str()) {
                Some(json) => value(json, schema, left),
                None => Ok(Value::Null),
            };
            Value::Struct(schemas.iter().map(field).collect::<Result<_, _>>()?)
        }
        _ => return Err(CONTRADICTORY),
    };
    schema.takes(&value).then_some(value).ok_or(CONTRADICTORY)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const KEPT: Kept = Kept { nulls: true, empty_arrays: true };

    /// An array of so many objects, each with a field of its own.
    fn distinct(objects: usize) -> String {
        let mut text = String::from("{\"a\":[");
        for n in 0..objects {
            let comma = if n == 0 { "" } else { "," };
            write!(text, "{comma}{{\"k{n}\":1}}").unwrap();
        }
        text + "]}"
    }

    #[test]
    fn a_payload_that_expands_to_too_many_values_is_refused() {
        assert!(matches!(expand(&distinct(900), KEPT), Ok(Expanded::Object(..))));
        assert_eq!(expand(&distinct(5400), KEPT), Err(LARGE.to_owned()));
    }

    /// A long name would be written with each object, and stand before those of all objects in it.
    #[test]
    fn a_long_name_counts_as_several_values() {
        let name = "n".repeat(100_000);
        let written = format!("{{\"a\":[{{\"{name}\":1}}{}]}}", ",{}".repeat(5000));
        assert_eq!(expand(&written, KEPT), Err(LARGE.to_owned()));
        let named = format!("{{\"{name}\":[{{}}{}]}}", ",{}".repeat(5000));
        assert_eq!(expand(&named, KEPT), Err(LARGE.to_owned()));
    }
}
