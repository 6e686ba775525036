//! A value of an event becomes a value of a column, or a sentence that says why not: with the column, the
//! place, what was expected and what kind of thing was found, never with the value itself.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use inbox_store::internal::port::{ColumnType, Values};
use outbox_core::TimeUnit;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{
    column::{Column, Source},
    decimal::is_decimal,
    time,
};

/// What stands at a column's place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given<'p> {
    /// A header or a key.
    Bytes(&'p [u8]),
    /// The text of a JSON value.
    Json(&'p str),
}

/// A place for the values of a column.
pub(super) fn room<'p>(column_type: ColumnType, events: usize) -> Values<'p> {
    match column_type {
        ColumnType::Bool => Values::Bools(Vec::with_capacity(events)),
        ColumnType::Bytea => Values::Bytes(Vec::with_capacity(events)),
        ColumnType::Date => Values::Days(Vec::with_capacity(events)),
        ColumnType::Float8 => Values::Floats(Vec::with_capacity(events)),
        ColumnType::Int4 => Values::Ints(Vec::with_capacity(events)),
        ColumnType::Int8 => Values::Longs(Vec::with_capacity(events)),
        ColumnType::Jsonb | ColumnType::Numeric | ColumnType::Text => {
            Values::Texts(Vec::with_capacity(events))
        }
        ColumnType::Timestamptz => Values::Micros(Vec::with_capacity(events)),
        ColumnType::Uuid => Values::Uuids(Vec::with_capacity(events)),
    }
}

/// Takes back what was put last, where there is more than `length`.
pub(super) fn shorten(values: &mut Values<'_>, length: usize) {
    match values {
        Values::Bools(values) => values.truncate(length),
        Values::Bytes(values) => values.truncate(length),
        Values::Days(values) | Values::Ints(values) => values.truncate(length),
        Values::Floats(values) => values.truncate(length),
        Values::Longs(values) | Values::Micros(values) => values.truncate(length),
        Values::Texts(values) => values.truncate(length),
        Values::Uuids(values) => values.truncate(length),
    }
}

/// Puts a value into its column.
pub(super) fn put<'p>(
    column: &Column,
    given: Option<Given<'p>>,
    values: &mut Values<'p>,
) -> Result<(), String> {
    let given = given.filter(|given| !matches!(given, Given::Json("null")));
    let Some(given) = given else {
        if !column.nullable {
            return Err(missing(column));
        }
        none(values);
        return Ok(());
    };
    take(column, given, values).map_err(|found| unfit(column, &found))
}

fn none(values: &mut Values<'_>) {
    match values {
        Values::Bools(values) => values.push(None),
        Values::Bytes(values) => values.push(None),
        Values::Days(values) | Values::Ints(values) => values.push(None),
        Values::Floats(values) => values.push(None),
        Values::Longs(values) | Values::Micros(values) => values.push(None),
        Values::Texts(values) => values.push(None),
        Values::Uuids(values) => values.push(None),
    }
}

fn missing(column: &Column) -> String {
    let Column { name, kind, source, .. } = column;
    format!(
        "column `{name}`: expected {kind} ({}) in {source}, found nothing or null; fix its \
         producer, or write `{kind}?` if it may be missing",
        expected(*kind, source)
    )
}

/// Of a key that is no text.
pub(super) fn binary_key(column: &Column, found: &str) -> String {
    let Column { name, kind, source, .. } = column;
    format!(
        "column `{name}`: expected {kind} in {source}, found {found}; only `bytea from key` \
         supports it: have its producer send keys as text, or read {kind} from the payload or a \
         header"
    )
}

fn unfit(column: &Column, found: &str) -> String {
    let Column { name, kind, source, .. } = column;
    if *source == Source::Key && found == NUL {
        return binary_key(
            column,
            "text with a NUL character, as in numbers and in keys of a schema registry",
        );
    }
    let unit = match found {
        time::NO_TIME => ", or its unit, such as `in micros`",
        time::SMALL => ", or its unit: `in seconds`, or `in millis` if that is correct",
        _ => "",
    };
    format!(
        "column `{name}`: expected {kind} ({}) in {source}, found {found}; fix its producer, or \
         the column's type{unit}",
        expected(*kind, source)
    )
}

/// What a type takes.
fn expected(column_type: ColumnType, source: &Source) -> &'static str {
    match (column_type, source) {
        (ColumnType::Bool, _) => "true or false",
        (ColumnType::Bytea, Source::Payload(_)) => "base64 text",
        (ColumnType::Bytea, _) => "any bytes",
        (ColumnType::Date, _) => "a date such as 2026-01-31",
        (ColumnType::Float8, _) => "a number",
        (ColumnType::Int4, _) => "a 32-bit integer",
        (ColumnType::Int8, _) => "a 64-bit integer",
        (ColumnType::Jsonb, _) => "any JSON without NUL characters",
        (ColumnType::Numeric, _) => "a number, or a number as text",
        (ColumnType::Text, _) => "text without NUL characters",
        (ColumnType::Timestamptz, _) => {
            "an RFC 3339 time such as 2026-01-31T09:30:00Z, or milliseconds since 1970"
        }
        (ColumnType::Uuid, _) => "a UUID as text",
    }
}

/// What kind of JSON a text is, by its first byte.
fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "text",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') | None => "null",
        Some(_) => "a number",
    }
}

/// An error is what was found.
fn take<'p>(
    column: &Column,
    given: Given<'p>,
    values: &mut Values<'p>,
) -> Result<(), Cow<'static, str>> {
    let unit = column.unit;
    match (values, column.kind) {
        (Values::Bools(values), _) => values.push(Some(boolean(given)?)),
        (Values::Bytes(values), _) => values.push(Some(bytes(given)?)),
        (Values::Days(values), _) => values.push(Some(day(given, unit)?)),
        (Values::Floats(values), _) => values.push(Some(float(given)?)),
        (Values::Ints(values), _) => {
            values.push(Some(parsed(given, "that is not a 32-bit integer")?));
        }
        (Values::Longs(values), _) => {
            values.push(Some(parsed(given, "that is not a 64-bit integer")?));
        }
        (Values::Micros(values), _) => values.push(Some(moment(given, unit)?)),
        (Values::Texts(values), ColumnType::Jsonb) => values.push(Some(json(given)?.into())),
        (Values::Texts(values), ColumnType::Numeric) => values.push(Some(numeric(given)?)),
        (Values::Texts(values), _) => values.push(Some(plain(given)?)),
        (Values::Uuids(values), _) => {
            let text = text(given)?;
            values.push(Some(Uuid::try_parse(&text).map_err(|_| "text that is not a UUID")?));
        }
    }
    Ok(())
}

/// A text; other JSON is not made one.
fn text(given: Given<'_>) -> Result<Cow<'_, str>, Cow<'static, str>> {
    match given {
        Given::Bytes(bytes) => utf8(bytes).map(Cow::Borrowed),
        Given::Json(json) => match kind(json) {
            "text" => unquoted(json),
            other => Err(other.into()),
        },
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Cow<'static, str>> {
    std::str::from_utf8(bytes).map_err(|_| "bytes that are not UTF-8".into())
}

/// A JSON text without escapes is a slice of the payload.
fn unquoted(json: &str) -> Result<Cow<'_, str>, Cow<'static, str>> {
    let inside = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inside.filter(|inside| !inside.contains('\\')) {
        Some(inside) => Ok(Cow::Borrowed(inside)),
        None => serde_json::from_str(json)
            .map(Cow::Owned)
            .map_err(|_| "text with half of a surrogate pair".into()),
    }
}

fn plain(given: Given<'_>) -> Result<Cow<'_, str>, Cow<'static, str>> {
    let text = text(given)?;
    if text.contains('\0') { Err(NUL.into()) } else { Ok(text) }
}

/// The text of a number: JSON writes it bare, headers as text.
fn number(given: Given<'_>) -> Result<&str, Cow<'static, str>> {
    match given {
        Given::Bytes(bytes) => utf8(bytes),
        Given::Json(json) => match kind(json) {
            "a number" => Ok(json),
            other => Err(other.into()),
        },
    }
}

/// `a number`, or for headers and keys `a text`.
fn noun(given: Given<'_>) -> &'static str {
    match given {
        Given::Bytes(_) => "text",
        Given::Json(_) => "a number",
    }
}

fn parsed<T: std::str::FromStr>(given: Given<'_>, which: &str) -> Result<T, Cow<'static, str>> {
    number(given)?.parse().map_err(|_| format!("{} {which}", noun(given)).into())
}

fn boolean(given: Given<'_>) -> Result<bool, Cow<'static, str>> {
    let text = match given {
        Given::Bytes(bytes) => utf8(bytes)?,
        Given::Json(json) => json,
    };
    match (text, given) {
        ("true", _) => Ok(true),
        ("false", _) => Ok(false),
        (_, Given::Json(json)) => Err(kind(json).into()),
        (_, Given::Bytes(_)) => Err("text that is neither true nor false".into()),
    }
}

fn float(given: Given<'_>) -> Result<f64, Cow<'static, str>> {
    let value: f64 = parsed(given, "that is not a number")?;
    if value.is_finite() { Ok(value) } else { Err("a number out of range".into()) }
}

fn bytes(given: Given<'_>) -> Result<Vec<u8>, Cow<'static, str>> {
    match given {
        Given::Bytes(bytes) => Ok(bytes.to_vec()),
        Given::Json(_) => {
            let text = text(given)?;
            STANDARD.decode(text.as_bytes()).map_err(|_| "text that is not base64".into())
        }
    }
}

/// A day as text, or a number of a unit.
fn day(given: Given<'_>, unit: Option<TimeUnit>) -> Result<i32, Cow<'static, str>> {
    const DAY: i64 = 86_400_000_000;
    if let Some(number) = unit.and(number(given).ok()).and_then(|text| text.parse().ok()) {
        let micros = unit.and_then(|unit| unit.micros(number)).ok_or(time::NO_TIME)?;
        return i32::try_from(micros.div_euclid(DAY)).map_err(|_| time::NO_TIME.into());
    }
    time::days(&text(given)?).ok_or("text that is not a date".into())
}

const NUL: &str = "text with a NUL character";

/// RFC 3339, or a number: milliseconds since 1970 without a unit, as everywhere.
fn moment(given: Given<'_>, unit: Option<TimeUnit>) -> Result<i64, Cow<'static, str>> {
    match given {
        Given::Json(json) if kind(json) == "a number" => {
            Ok(time::of_number(json.parse().map_err(|_| time::NO_TIME)?, unit)?)
        }
        _ => {
            let text = text(given)?;
            match text.parse() {
                Ok(number) if matches!(given, Given::Bytes(_)) => {
                    Ok(time::of_number(number, unit)?)
                }
                _ => time::micros(&text).ok_or_else(|| "text that is not a time".into()),
            }
        }
    }
}

fn numeric(given: Given<'_>) -> Result<Cow<'_, str>, Cow<'static, str>> {
    let (text, noun) = match given {
        Given::Json(json) if kind(json) == "a number" => (Cow::Borrowed(json), "a number"),
        _ => (text(given)?, "text"),
    };
    if is_decimal(&text) {
        return Ok(text);
    }
    Err(format!("{noun} that is not a decimal number, or is too long").into())
}

/// JSON that every database takes.
fn json(given: Given<'_>) -> Result<&str, Cow<'static, str>> {
    let (json, noun) = match given {
        Given::Bytes(bytes) => (utf8(bytes)?, "text"),
        Given::Json(json) => (json, kind(json)),
    };
    if serde_json::from_str::<&RawValue>(json).is_err() {
        return Err("text that is not JSON".into());
    }
    match refused_by_databases(json) {
        Some(why) => Err(format!("{noun} {why}").into()),
        None => Ok(json),
    }
}

/// The deepest JSON: SQLite takes 1,000 levels, PostgreSQL what its stack has room for.
const DEPTH_MAX: usize = 500;

/// What databases do not take of JSON that is JSON by its grammar.
fn refused_by_databases(json: &str) -> Option<&'static str> {
    let bytes = json.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        let next = match byte {
            b'[' | b'{' => {
                depth += 1;
                at + 1
            }
            b']' | b'}' => {
                depth -= 1;
                at + 1
            }
            b'"' => match text_end(bytes, at + 1) {
                Ok(end) => end,
                Err(why) => return Some(why),
            },
            b'-' | b'0'..=b'9' => {
                let is_part = |b: &u8| matches!(b, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                if !is_decimal(&json[at..at + length]) {
                    return Some("with a number in it that is too long or out of range");
                }
                at + length
            }
            _ => at + 1,
        };
        if depth > DEPTH_MAX {
            return Some("that is nested too deep (more than 500 levels)");
        }
        at = next;
    }
    None
}

/// Where a text of JSON ends that begins at a place; or what databases do not take in it.
fn text_end(bytes: &[u8], mut at: usize) -> Result<usize, &'static str> {
    const HALF: &str = "with half of a surrogate pair in it";
    let escaped = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    while let Some(byte) = bytes.get(at) {
        at += match (byte, escaped(at)) {
            (b'"', _) => return Ok(at + 1),
            (_, Some(0)) => return Err("with a NUL character in it"),
            (_, Some(0xd800..=0xdbff)) => match escaped(at + 6) {
                Some(0xdc00..=0xdfff) => 12,
                _ => return Err(HALF),
            },
            (_, Some(0xdc00..=0xdfff)) => return Err(HALF),
            (_, Some(_)) => 6,
            (b'\\', None) => 2,
            _ => 1,
        };
    }
    Ok(at)
}
