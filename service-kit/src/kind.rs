//! What a key may hold, and the sentences for what it may not.

use std::{fmt, time::Duration};

use outbox_core::Sources;
use serde::Deserialize;
use toml::Value;

use crate::{duration, share::Share, size};

/// The kind of a key's value, with its bounds (inclusive).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Text that is not empty.
    Text,
    /// Text that is shown nowhere; `<key>_file` names a file to read it from.
    Secret,
    /// A whole number.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A number from 0 to 1.
    Share,
    /// Bytes, as a number or as text with a unit (`"4MiB"`).
    Bytes {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A duration with its unit (`"30s"`).
    Duration {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// A list of tables: the type of the key says what is in each.
    Tables,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A list of texts; in the environment and in flags separated by commas.
    List,
    /// A place in a record, or a list of places to look at in turn.
    Place,
    /// A table of further settings by name.
    Settings,
    /// True or false.
    Flag,
    /// A table of texts by name.
    Columns,
}

impl Kind {
    /// Reads a value, `loose` when its source knows only text (environment, flags). Answers it in
    /// the form that the sections deserialize, or what was expected and found instead.
    pub fn read(&self, value: &Value, loose: bool) -> Result<Value, String> {
        if *self == Self::Place {
            return self.place(value, loose);
        }
        let read = match (self, value) {
            (Self::Number { .. }, Value::String(text)) if loose => whole(text),
            (Self::Share, Value::Float(share)) => share_of(Share::new(*share)),
            (Self::Share, Value::Integer(0)) => share_of(Share::new(0.0)),
            (Self::Share, Value::Integer(1)) => share_of(Share::new(1.0)),
            (Self::Share, Value::String(text)) if loose => share_of(Share::parse(text)),
            (Self::Bytes { .. }, Value::String(text)) => size::parse(text).and_then(number),
            (Self::List, Value::String(text)) if loose => Some(list(text)),
            (Self::List, Value::Array(items)) => {
                items.iter().all(Value::is_str).then(|| value.clone())
            }
            (Self::Columns, Value::Table(columns)) => {
                columns.values().all(Value::is_str).then(|| value.clone())
            }
            (Self::Flag, Value::String(text)) if loose => {
                text.trim().parse().ok().map(Value::Boolean)
            }
            (Self::Tables, Value::Array(items)) => {
                items.iter().all(Value::is_table).then(|| value.clone())
            }
            (Self::Settings, Value::Table(_))
            | (Self::Flag, Value::Boolean(_))
            | (Self::Number { .. } | Self::Bytes { .. }, Value::Integer(_))
            | (
                Self::Text | Self::Secret | Self::Choice(_) | Self::Duration { .. },
                Value::String(_),
            ) => Some(value.clone()),
            _ => None,
        };
        read.filter(|read| self.within(read)).ok_or_else(|| self.complaint(value))
    }

    /// One place, or several.
    fn place(self, value: &Value, loose: bool) -> Result<Value, String> {
        let value = match value {
            Value::String(text) if loose && text.contains(',') => list(text),
            Value::String(_) | Value::Array(_) => value.clone(),
            other => return Err(self.complaint(other)),
        };
        let places = Sources::deserialize(value.clone());
        places.map(|_| value).map_err(|error| error.message().to_owned())
    }

    /// Whether a value of the right form is within the bounds.
    fn within(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Number { min, max } | Self::Bytes { min, max }, Value::Integer(number)) => {
                u64::try_from(*number).is_ok_and(|number| (*min..=*max).contains(&number))
            }
            (Self::Duration { min, max }, Value::String(text)) => {
                duration::parse(text).is_some_and(|duration| (*min..=*max).contains(&duration))
            }
            (Self::Choice(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::Text | Self::Secret, Value::String(text)) => !text.trim().is_empty(),
            _ => true,
        }
    }

    fn complaint(&self, found: &Value) -> String {
        match self {
            Self::Secret => format!("expected {self}, found {}", form(found)),
            Self::Duration { .. } if has_no_unit(found) => {
                format!("expected {self}, found {}; add a unit, such as \"10s\"", shown(found))
            }
            _ => format!("expected {self}, found {}", shown(found)),
        }
    }
}

/// What the key expects, as the documentation and errors say it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("non-empty string"),
            Self::Secret => f.write_str("non-empty string (a secret)"),
            Self::Number { min, max } => write!(f, "integer {min}–{max}"),
            Self::Share => f.write_str("number 0–1"),
            Self::Bytes { min, max } => {
                write!(f, "size {}–{}", size::text(*min), size::text(*max))
            }
            Self::Duration { min, max } => {
                write!(f, "duration {}–{}", duration::text(*min), duration::text(*max))
            }
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::List => f.write_str("list of strings"),
            Self::Place => f.write_str("place such as `header:NAME`, or a list of places"),
            Self::Settings => f.write_str("table of settings"),
            Self::Tables => f.write_str("list of tables"),
            Self::Flag => f.write_str("true or false"),
            Self::Columns => f.write_str("table such as { amount = \"int8 from /amount\" }"),
        }
    }
}

/// A number that was meant to be a duration.
fn has_no_unit(found: &Value) -> bool {
    match found {
        Value::Integer(_) | Value::Float(_) => true,
        Value::String(text) => text.trim().parse::<f64>().is_ok(),
        _ => false,
    }
}

fn whole(text: &str) -> Option<Value> {
    text.trim().parse().ok().map(Value::Integer)
}

fn number(number: u64) -> Option<Value> {
    i64::try_from(number).ok().map(Value::Integer)
}

fn share_of(share: Option<Share>) -> Option<Value> {
    share.map(|share| Value::Float(share.get()))
}

fn list(text: &str) -> Value {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
}

/// What stands there, for an error. Only for values that are no secrets.
fn shown(found: &Value) -> String {
    match found {
        Value::String(text) if text.chars().count() <= 60 => format!("{text:?}"),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => format!("`{found}`"),
        other => form(other).into(),
    }
}

fn form(found: &Value) -> &'static str {
    match found {
        Value::String(text) if text.trim().is_empty() => "an empty string",
        Value::String(_) => "text",
        Value::Integer(_) => "a number",
        Value::Float(_) => "a fraction",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}
