//! The order key and the lane rule (finding 3 of the protocol; C4).

use outbox_core::{ReadRules, Reader, Record};
use proptest::prelude::*;

use crate::{reader, record};

fn by(aggregate: &str) -> Reader {
    reader(&format!(
        r#"{{"preset": "custom", "id": "position", "type": "header:type", "aggregate": {aggregate}}}"#
    ))
}

/// The rule is stored with the lanes: a change of these texts is a remap for every user.
#[test]
fn the_lane_rule_names_the_places_of_the_aggregate() {
    let own = Reader::new(&ReadRules::own()).unwrap();
    assert_eq!(own.lane_rule(), "xxh3-64/v1:header:aggregate_id|key");
    for (aggregate, rule) in [
        (r#""key""#, "xxh3-64/v1:key"),
        (r#""key:hex""#, "xxh3-64/v1:key:hex"),
        (r#"["header:a", "header:b", "key"]"#, "xxh3-64/v1:header:a|header:b|key"),
        (r#""pointer:/x""#, "xxh3-64/v1:pointer:/x"),
        (r#""topic""#, "xxh3-64/v1:topic"),
        (r#""value:all""#, "xxh3-64/v1:value:all"),
    ] {
        assert_eq!(by(aggregate).lane_rule(), rule);
    }
}

/// C4: a null key and an empty one name no aggregate, and do not spin.
#[test]
fn a_null_key_has_no_order_key_and_its_record_is_refused() {
    let reader = by(r#""key""#);
    for key in [None, Some(bytes::Bytes::new())] {
        let sent = Record { key, ..record("", &[("type", "T")], "{}") };
        assert_eq!(reader.order_key("t", &sent), None);
        assert_eq!(reader.read("t", 0, 0, &sent).unwrap_err().reason(), "missing_aggregate");
    }
}

#[test]
fn an_unreadable_record_keeps_its_order_key() {
    let reader = by(r#"["header:a", "key"]"#);
    let unreadable = record("k", &[("a", "x")], "");
    assert_eq!(reader.read("t", 0, 0, &unreadable).unwrap_err().reason(), "missing_type");
    assert_eq!(reader.order_key("t", &unreadable), Some(&b"x"[..]));
}

#[test]
fn an_aggregate_in_the_payload_has_no_order_key_before_it_is_read() {
    let reader = by(r#""pointer:/x""#);
    assert!(reader.lane_needs_payload());
    assert!(!by(r#""key""#).lane_needs_payload());
    let sent = record("k", &[("type", "T")], r#"{"x": "a"}"#);
    assert_eq!(reader.order_key("t", &sent), None);
    let event = reader.read("t", 0, 0, &sent).unwrap();
    assert_eq!(*event.aggregate.aggregate_id(), "a");
}

#[test]
fn a_constant_aggregate_is_one_lane() {
    let sent = record("k", &[("type", "T")], "");
    assert_eq!(by(r#""topic""#).order_key("t", &sent), Some(&b"t"[..]));
    assert_eq!(by(r#""value:all""#).order_key("t", &sent), Some(&b"all"[..]));
}

proptest! {
    /// C4: equal bytes are equal keys, whichever buffer they are in.
    #[test]
    fn equal_bytes_from_different_buffers_are_one_aggregate(key in "[^\0]{1,40}") {
        let reader = by(r#""key""#);
        let one = record(&key, &[("type", "T")], "");
        let mut two = one.clone();
        let wider = bytes::Bytes::from(format!("x{key}y"));
        two.key = Some(wider.slice(1..=key.len()));
        prop_assert_eq!(reader.order_key("t", &one), reader.order_key("t", &two));
        let one = reader.read("t", 0, 0, &one).unwrap().aggregate;
        let two = reader.read("t", 0, 1, &two).unwrap().aggregate;
        prop_assert_eq!(&one, &two);
        let hash = |aggregate: &outbox_core::Aggregate| {
            use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
            BuildHasherDefault::<DefaultHasher>::default().hash_one(aggregate)
        };
        prop_assert_eq!(hash(&one), hash(&two));
    }

    /// C4: the same key on two topics is two aggregates.
    #[test]
    fn one_key_on_two_topics_is_two_aggregates(key in "[^\0]{1,40}") {
        let reader = by(r#""key""#);
        let sent = record(&key, &[("type", "T")], "");
        let of = |topic| reader.read(topic, 0, 0, &sent).unwrap().aggregate;
        let (orders, returns) = (of("orders"), of("returns"));
        prop_assert_eq!(orders.aggregate_id(), returns.aggregate_id());
        prop_assert_ne!(orders, returns);
    }

    /// Finding 3: whenever a record can be read, its order key says the same as its aggregate id.
    #[test]
    fn one_aggregate_has_one_order_key(
        header in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..4)),
        key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..4)),
    ) {
        for aggregate in [r#"["header:a", "key"]"#, r#""key""#, r#""header:a""#] {
            let reader = by(aggregate);
            let mut sent = record("", &[("type", "T")], "");
            sent.key = key.clone().map(Into::into);
            let value = header.clone().map(Into::into);
            sent.headers.push(outbox_core::Header { name: "a".into(), value });
            if let Ok(event) = reader.read("t", 0, 0, &sent) {
                let id = event.aggregate.aggregate_id().as_bytes();
                prop_assert_eq!(reader.order_key("t", &sent), Some(id));
            }
        }
    }
}
