//! The order key and the lane rule (finding 3 of the protocol; C4).

use outbox_core::{Reader, Record};
use proptest::prelude::*;

use crate::{reader, record};

fn by(aggregate: &str) -> Reader {
    reader(&format!(r#"{{"id": "position", "type": "header:type", "aggregate_id": {aggregate}}}"#))
}

/// The rule is stored with the lanes: a change of these texts is a remap for every user.
#[test]
fn the_lane_rule_names_the_places_of_the_aggregate() {
    assert_eq!(Reader::own(1024).lane_rule(), "header:aggregate_id|key");
    for (aggregate, rule) in [
        (r#""key""#, "key"),
        (r#""key:hex""#, "key:hex"),
        (r#"["header:a", "header:b", "key"]"#, "header:a|header:b|key"),
        (r#""pointer:/x""#, "pointer:/x"),
        (r#""topic""#, "topic"),
        (r#""value:all""#, "value:all"),
    ] {
        assert_eq!(by(aggregate).lane_rule(), rule);
    }
}

/// C4: a null key asks for no order.
#[test]
fn a_record_without_a_key_is_an_aggregate_of_its_own() {
    for reader in [by(r#""key""#), by(r#""key:hex""#), by(r#"["header:a", "key"]"#)] {
        let sent = Record { key: None, ..record("", &[("type", "T")], "{}") };
        assert_eq!(reader.order_key("t", &sent), Some(&b""[..]));
        let aggregate = |partition, offset| {
            reader.read("t", partition, offset, &sent).unwrap().aggregate.to_string()
        };
        assert_eq!(aggregate(0, 1), "t/@0-1");
        assert_ne!(aggregate(0, 1), aggregate(0, 2));
        assert_ne!(aggregate(0, 1), aggregate(1, 1));
    }
}

/// C4: an empty key, and a missing header without a key to fall back to, are the producer's mistake.
#[test]
fn an_empty_key_names_no_aggregate_and_its_record_is_refused() {
    let empty = record("", &[("type", "T")], "{}");
    let keyless = Record { key: None, ..empty.clone() };
    for (reader, sent) in [(by(r#""key""#), &empty), (by(r#""header:a""#), &keyless)] {
        assert_eq!(reader.order_key("t", sent), Some(&b""[..]));
        assert_eq!(reader.read("t", 0, 0, sent).unwrap_err().reason(), "missing_aggregate");
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
fn an_aggregate_in_the_payload_makes_the_partition_one_sequence() {
    let reader = by(r#""pointer:/x""#);
    let sent = record("k", &[("type", "T")], r#"{"x": "a"}"#);
    assert_eq!(reader.order_key("t", &sent), None);
    let event = reader.read("t", 0, 0, &sent).unwrap();
    assert_eq!(event.aggregate.aggregate_id(), "a");
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
                let own = if id.starts_with(b"@0-") { &b""[..] } else { id };
                prop_assert_eq!(reader.order_key("t", &sent), Some(own));
            }
        }
    }
}
