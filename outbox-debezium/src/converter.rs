//! Connect's converters: what makes bytes of a value.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;

use crate::{
    connect::{Kind, Schema, Value},
    json::write_string,
    number::{double, float},
};

/// `StringConverter`, for what the relay gives it: texts and numbers.
pub(crate) fn string(value: &Value) -> Option<Bytes> {
    header(value).map(Bytes::from)
}

/// `SimpleHeaderConverter`.
pub(crate) fn header(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => {
            let mut out = String::new();
            write_value(&mut out, None, value);
            Some(out)
        }
    }
}

/// `JsonConverter`. Without a value and a schema there is nothing to write; without a schema alone it is null.
pub(crate) fn json(schema: Option<&Schema>, value: &Value, schemas: bool) -> Bytes {
    let mut out = String::new();
    if schemas {
        out.push_str("{\"schema\":");
        match schema {
            Some(schema) => write_schema(&mut out, schema, None),
            None => out.push_str("null"),
        }
        out.push_str(",\"payload\":");
    }
    write_value(&mut out, schema, value);
    if schemas {
        out.push('}');
    }
    Bytes::from(out)
}

fn write_schema(out: &mut String, schema: &Schema, field: Option<&str>) {
    let word = match &schema.kind {
        Kind::Boolean => "boolean",
        Kind::Int16 => "int16",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Float => "float",
        Kind::Double => "double",
        Kind::String => "string",
        Kind::Bytes => "bytes",
        Kind::Array(_) => "array",
        Kind::Struct(_) => "struct",
    };
    put(out, format_args!("{{\"type\":\"{word}\""));
    match &schema.kind {
        Kind::Array(items) => {
            out.push_str(",\"items\":");
            write_schema(out, items, None);
        }
        Kind::Struct(fields) => {
            out.push_str(",\"fields\":[");
            for (place, (name, schema)) in fields.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_schema(out, schema, Some(name));
            }
            out.push(']');
        }
        _ => {}
    }
    put(out, format_args!(",\"optional\":{}", schema.optional));
    if let Some(name) = &schema.name {
        out.push_str(",\"name\":");
        write_string(out, name);
    }
    if let Some(version) = schema.version {
        put(out, format_args!(",\"version\":{version}"));
    }
    if let Some(field) = field {
        out.push_str(",\"field\":");
        write_string(out, field);
    }
    out.push('}');
}

fn write_value(out: &mut String, schema: Option<&Schema>, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Boolean(value) => put(out, format_args!("{value}")),
        Value::Int(value) => put(out, format_args!("{value}")),
        Value::Float(value) => write_number(out, &float(*value), value.is_finite()),
        Value::Double(value) => write_number(out, &double(*value), value.is_finite()),
        Value::String(text) => write_string(out, text),
        Value::Bytes(bytes) => put(out, format_args!("\"{}\"", STANDARD.encode(bytes))),
        Value::Array(values) => {
            let items = match schema.map(|schema| &schema.kind) {
                Some(Kind::Array(items)) => Some(&**items),
                _ => None,
            };
            out.push('[');
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_value(out, items, value);
            }
            out.push(']');
        }
        Value::Struct(values) => {
            let fields = match schema.map(|schema| &schema.kind) {
                Some(Kind::Struct(fields)) => &fields[..],
                _ => &[],
            };
            out.push('{');
            for (place, ((name, schema), value)) in fields.iter().zip(values).enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                write_value(out, Some(schema), value);
            }
            out.push('}');
        }
    }
}

/// What is no number in JSON is text there.
fn write_number(out: &mut String, text: &str, finite: bool) {
    if finite {
        out.push_str(text);
    } else {
        put(out, format_args!("\"{text}\""));
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).unwrap_or_else(|_| unreachable!("a string takes everything"));
}
