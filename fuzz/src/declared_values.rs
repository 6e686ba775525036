//! Any columns and any record: values within the bounds of their types, or a sentence that shows nothing
//! of the record.
//!
//! An input is lines `NAME=TYPE`, or `NAME=TYPE from SOURCE`; then an empty line, and bytes that are the
//! payload, the key and the header `h`, all three.

use std::{collections::BTreeMap, ops::RangeInclusive};

use bytes::Bytes;
use inbox_consumer::testing::inside::gathered;
use inbox_store::internal::port::{Relation, Values};
use outbox_core::{Header, Record};
use serde_json::{Value, value::RawValue};

use super::input::{CANARY, has_canary, head_and_rest};

/// The years 0000 to 9999, in days since 1970.
const DAYS: RangeInclusive<i32> = -719_528..=2_932_896;
const MICROS_OF_A_DAY: i64 = 86_400_000_000;

/// Reads columns, and a record into them.
pub fn check(input: &[u8]) {
    let (lines, bytes) = head_and_rest(input);
    let mut columns = BTreeMap::new();
    for line in &lines {
        let Some((name, text)) = std::str::from_utf8(line).ok().and_then(|l| l.split_once('='))
        else {
            return;
        };
        columns.insert(name.to_owned(), text.to_owned());
    }
    let secret = !lines.iter().any(|line| has_canary(line));
    let bytes = Bytes::copy_from_slice(bytes);
    let record = Record {
        key: Some(bytes.clone()),
        headers: vec![Header { name: "h".into(), value: Some(bytes.clone()) }],
        payload: Some(bytes.clone()),
        timestamp_ms: None,
    };
    let read = gathered(&columns, record, |relation, wrong| match wrong {
        None => {
            whole(relation, &columns, bytes.len());
            found(relation, &columns, &bytes);
        }
        Some(wrong) => {
            assert!(!wrong.is_empty() && (!secret || !wrong.contains(CANARY)), "{wrong}");
            assert!(relation.ids.is_empty() && relation.columns.iter().all(|one| length(one) == 0));
        }
    });
    if let Err(sentences) = read {
        assert!(sentences.iter().all(|sentence| !sentence.is_empty()) && !sentences.is_empty());
    }
}

/// One row, every value of which fits.
fn whole(relation: &Relation<'_>, columns: &BTreeMap<String, String>, given: usize) {
    assert_eq!(relation.ids.len(), 1);
    assert_eq!(relation.columns.len(), columns.len());
    for (values, text) in relation.columns.iter().zip(columns.values()) {
        assert_eq!(length(values), 1);
        let kind = text.split_whitespace().next().unwrap_or_default();
        assert!(kind.ends_with('?') || !is_null(values), "{text}: {values:?}");
        within(values, kind, given);
    }
}

/// JSON out of the payload is what the whole document has there.
fn found(relation: &Relation<'_>, columns: &BTreeMap<String, String>, payload: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(payload) else { return };
    for (values, (name, text)) in relation.columns.iter().zip(columns) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pointer = match words[..] {
            ["jsonb" | "jsonb?"] => format!("/{name}"),
            ["jsonb" | "jsonb?", _, "payload"] => String::new(),
            ["jsonb" | "jsonb?", _, place] if place.starts_with('/') => place.to_owned(),
            _ => continue,
        };
        let there = document.pointer(&pointer).filter(|value| !value.is_null());
        let Values::Texts(texts) = values else { panic!("{text}: {values:?}") };
        let read = texts[0].as_deref().map(|text| serde_json::from_str(text).expect("it is JSON"));
        assert_eq!(read.as_ref(), there, "{pointer}");
    }
}

fn within(values: &Values<'_>, kind: &str, given: usize) {
    match values {
        Values::Bytes(values) => each(values, |bytes| bytes.len() <= given),
        Values::Days(values) => each(values, |days| DAYS.contains(days)),
        Values::Floats(values) => each(values, |number| number.is_finite()),
        Values::Micros(values) => {
            each(values, |micros| {
                let days = micros.div_euclid(MICROS_OF_A_DAY);
                i32::try_from(days).is_ok_and(|days| DAYS.contains(&days))
            });
        }
        Values::Texts(values) => each(values, |text| {
            let fits = match kind.trim_end_matches('?') {
                "jsonb" => serde_json::from_str::<&RawValue>(text).is_ok(),
                // As PostgreSQL reads it.
                "numeric" => text.len() <= 1000 && text.parse::<f64>().is_ok(),
                _ => true,
            };
            fits && text.len() <= given && !text.contains('\0')
        }),
        Values::Bools(_) | Values::Ints(_) | Values::Longs(_) | Values::Uuids(_) => {}
    }
}

fn each<T: std::fmt::Debug>(values: &[Option<T>], fits: impl Fn(&T) -> bool) {
    for value in values.iter().flatten() {
        assert!(fits(value), "out of bounds: {value:?}");
    }
}

fn length(values: &Values<'_>) -> usize {
    match values {
        Values::Bools(values) => values.len(),
        Values::Bytes(values) => values.len(),
        Values::Days(values) | Values::Ints(values) => values.len(),
        Values::Floats(values) => values.len(),
        Values::Longs(values) | Values::Micros(values) => values.len(),
        Values::Texts(values) => values.len(),
        Values::Uuids(values) => values.len(),
    }
}

fn is_null(values: &Values<'_>) -> bool {
    match values {
        Values::Bools(values) => values == &[None],
        Values::Bytes(values) => values == &[None],
        Values::Days(values) | Values::Ints(values) => values == &[None],
        Values::Floats(values) => values == &[None],
        Values::Longs(values) | Values::Micros(values) => values == &[None],
        Values::Texts(values) => values == &[None],
        Values::Uuids(values) => values == &[None],
    }
}
