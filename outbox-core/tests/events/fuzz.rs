//! Arbitrary records: never a panic, never a secret, always the same answer.

use outbox_core::{Header, ReadRules, Reader, Record, Source, Sources, Text};
use proptest::{collection::vec, option, prelude::*};
use serde_json::Value;

use crate::reader;

/// Headers that matter, and others.
fn names() -> impl Strategy<Value = Text> {
    prop_oneof![
        proptest::sample::select(vec![
            "event_id",
            "event_type",
            "aggregate_type",
            "aggregate_id",
            "aggregate_version",
            "occurred_at",
            "schema_version",
        ])
        .prop_map(Text::from_static),
        any::<String>().prop_map(Text::from),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(Just(b'x'), 1000..1100),
        "[-0-9TZ:. ]{0,30}".prop_map(String::into_bytes),
        Just(b"0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11".to_vec()),
        any::<String>().prop_map(String::into_bytes),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300).prop_map(Value::from),
        "[a/~\"\\\\é\0]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(("[ab/~0]{0,2}", inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn records() -> impl Strategy<Value = Record> {
    let payload = prop_oneof![
        vec(any::<u8>(), 0..200),
        json().prop_map(|value| value.to_string().into_bytes()),
    ];
    let header = (names(), option::of(values()))
        .prop_map(|(name, value)| Header { name, value: value.map(Into::into) });
    (option::of(values()), vec(header, 0..12), option::of(payload), any::<Option<i64>>()).prop_map(
        |(key, headers, payload, timestamp_ms)| Record {
            key: key.map(Into::into),
            headers,
            payload: payload.map(Into::into),
            timestamp_ms,
        },
    )
}

fn readers() -> Vec<Reader> {
    vec![
        Reader::own(crate::BYTES_MAX),
        reader(
            r#"{"id": ["pointer:/a", "position"], "type": ["pointer:/b", "value:T"],
                "aggregate_id": "pointer:/a/b", "aggregate_version": "pointer:/0", "occurred_at": "pointer:"}"#,
        ),
        reader(
            r#"{"id": "key", "id_source": ["header:event_type", "topic"],
                "type": "header:event_type", "aggregate_id": "key:hex"}"#,
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// B10, E8, I1: whatever arrives is an event or a reason, and the same one again.
    #[test]
    fn any_record_is_an_event_or_a_reason(record in records(), topic in "[a-z.]{0,5}") {
        for reader in readers() {
            let read = reader.read(&topic, 0, 0, &record);
            prop_assert_eq!(&read, &reader.read(&topic, 0, 0, &record.clone()));
            let key = reader.order_key(&topic, &record);
            match read {
                Ok(event) => {
                    prop_assert!(key.is_some() || reader.lane_rule().starts_with("pointer:"));
                    prop_assert!(!event.event_type.is_empty());
                    prop_assert!(!event.aggregate.aggregate_id().contains('\0'));
                    prop_assert!(event.source_id.is_none_or(|id| id.len() <= 255 && !id.contains('\0')));
                }
                Err(error) => {
                    prop_assert!(!error.to_string().is_empty());
                    prop_assert!(error.reason().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
                }
            }
        }
    }

    /// One pass over the payload finds what building the whole document would.
    #[test]
    fn pointers_find_what_the_document_has(
        document in json(),
        pointer in "(/([ab/~0]{0,2}|0|1|01)){0,3}",
    ) {
        let pointer = pointer.replace('~', "~0");
        let mut rules =
            ReadRules::new(Source::Position, crate::source(&format!("pointer:{pointer}")));
        rules.aggregate_id = crate::source("value:all").into();
        // A second way through the same document, that may be a part of the first.
        let other = [crate::source("pointer:/a/b"), crate::source("value:none")];
        rules.aggregate_type = Sources::new(other).unwrap();
        let payload = document.to_string();
        let record = Record { payload: Some(payload.into()), ..Record::default() };
        let read = Reader::new(rules, crate::BYTES_MAX).unwrap().read("t", 0, 0, &record);
        let expected = match document.pointer(&pointer) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            Some(Value::Number(number)) if !number.is_f64() => Ok(number.to_string()),
            None | Some(Value::Null | Value::String(_)) => Err("missing_type"),
            Some(_) => Err("invalid_pointer"),
        };
        match (read, expected) {
            (Ok(event), Ok(text)) => prop_assert_eq!(event.event_type.as_str(), text),
            (Err(error), Err(reason)) => prop_assert_eq!(error.reason(), reason),
            // A NUL, or something unfit at the other pointer.
            (Err(error), Ok(text)) => {
                prop_assert!(text.contains('\0') || error.reason() == "invalid_pointer");
            }
            (read, expected) => prop_assert!(false, "{read:?} {expected:?}"),
        }
    }
}

/// A key that occurs twice counts as its last occurrence, whatever the first one had.
#[test]
fn the_last_of_equal_keys_counts() {
    let reader =
        reader(r#"{"id": "position", "type": "pointer:/a/b", "aggregate_id": "value:all"}"#);
    let read = |payload: &'static str| {
        let record = Record { payload: Some(payload.into()), ..Record::default() };
        reader.read("t", 0, 0, &record).map(|event| event.event_type.to_string())
    };
    assert_eq!(read(r#"{"a": {"b": "1"}, "a": {"b": "2"}}"#).unwrap(), "2");
    assert!(read(r#"{"a": {"b": "1"}, "a": {"c": "2"}}"#).is_err());
    assert!(read(r#"{"a": {"b": "1"}, "a": 5}"#).is_err());
}

/// I2: deep nesting beside the way is skipped, on the way it is an error; neither overflows.
#[test]
fn deep_payloads_do_not_overflow() {
    let reader = reader(r#"{"id": "position", "type": "pointer:/t", "aggregate_id": "value:all"}"#);
    for (open, close) in [("[", "]"), (r#"{"t":"#, "}")] {
        for payload in [
            format!(r#"{{"x": {}0{}, "t": "T"}}"#, open.repeat(100_000), close.repeat(100_000)),
            open.repeat(100_000),
        ] {
            let record = Record { payload: Some(payload.into()), ..Record::default() };
            let _either_way = reader.read("t", 0, 0, &record);
        }
    }
}
