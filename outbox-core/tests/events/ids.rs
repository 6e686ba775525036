//! Event ids: the golden vectors were computed with Python's hashlib and uuid.

use outbox_core::{EventId, ID_BYTES_MAX, IdError};

/// B10, B12.
#[test]
fn foreign_ids_have_golden_keys() {
    let long = "é".repeat(ID_BYTES_MAX / 2);
    for (source, id, expected) in [
        ("shop", &b"order-1"[..], "9c85d133-4e23-80c8-b93b-5798cde3d5ff"),
        ("shop", b"ORDER-1", "358bfa83-519e-86b4-8c75-c2d523c780cf"),
        ("depot", b"order-1", "24c18ef7-3057-85ef-b052-b480ef1cb169"),
        ("shop", b"a\0b", "a5bac756-f627-8c88-9a96-3d8d6469a0c3"),
        ("shop", b"\xff\xfe", "50ade4f4-a282-804f-afce-37f7563c8bbf"),
        ("shop", b" ", "392fa21f-c127-8dc6-843e-2fb4ba4ae96f"),
        ("s", long.as_bytes(), "2337420f-dd3f-860f-99e6-aefad1850ecf"),
    ] {
        assert_eq!(EventId::foreign(source, id).unwrap().to_string(), expected);
    }
}

/// B11.
#[test]
fn positions_have_golden_keys() {
    for (topic, partition, offset, expected) in [
        ("orders", 0, 0, "de62a21f-82b6-8c30-b671-633e080915c2"),
        ("orders", 3, 17, "c4807724-8356-8999-b559-774a714ae3ac"),
        ("orders", i32::MAX, i64::MAX, "37cc2cd1-db40-82c4-8470-7ac9bdeed9e8"),
        ("o", i32::MIN, i64::MIN, "33a116c5-5063-824e-a777-e379b3bef2a8"),
    ] {
        assert_eq!(EventId::at(topic, partition, offset).unwrap().to_string(), expected);
    }
}

#[test]
fn ids_within_a_topic_have_golden_keys() {
    for (topic, id, expected) in [
        ("orders", "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11", "0190a5c8-9e2a-833e-b547-d84b8cabc3b0"),
        ("refunds", "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11", "0190a5c8-eb9a-85f5-af70-2120416ff309"),
        ("orders", "9c85d133-4e23-80c8-b93b-5798cde3d5ff", "0dd8607f-9e29-86c5-9242-2182da28bdd6"),
    ] {
        let id = EventId::from_uuid_text(id).unwrap();
        assert_eq!(id.within(topic).unwrap().to_string(), expected);
    }
    assert_eq!(EventId::new().within(""), Err(IdError::Source));
    assert_eq!(EventId::new().within("a\0b"), Err(IdError::Source));
    // New ids are neighbours in an index.
    let [first, second] = [EventId::new(), EventId::new()].map(|id| id.within("orders").unwrap());
    assert_eq!(first.as_bytes()[..3], second.as_bytes()[..3]);
}

/// B8: spelling is not identity for UUIDs, and is for everything else.
#[test]
fn a_uuid_is_its_own_key_in_every_spelling_and_from_every_source() {
    let expected = "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11";
    for spelling in [
        "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11",
        "0190A5C8-7C2E-7D64-9B6E-0C9F5D9B2A11",
        "0190a5c87c2e7d649b6e0c9f5d9b2a11",
        "{0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11}",
        "urn:uuid:0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11",
    ] {
        assert_eq!(EventId::foreign("a", spelling).unwrap().to_string(), expected, "{spelling}");
        assert_eq!(EventId::foreign("b", spelling).unwrap().to_string(), expected, "{spelling}");
    }
    let spaced = EventId::foreign("a", " 0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11").unwrap();
    assert_ne!(spaced.to_string(), expected);
}

/// B10, B11.
#[test]
fn ids_that_cannot_be_told_apart_are_refused() {
    assert_eq!(EventId::foreign("shop", ""), Err(IdError::Empty));
    let long = vec![b'x'; ID_BYTES_MAX + 1];
    assert_eq!(EventId::foreign("shop", &long), Err(IdError::TooLong { bytes: 1025, max: 1024 }));
    assert!(EventId::foreign("shop", &long[1..]).is_ok());
    assert_eq!(EventId::foreign("", "x"), Err(IdError::Source));
    assert_eq!(EventId::foreign("a\0b", "c"), Err(IdError::Source));
    assert_eq!(EventId::at("", 0, 0), Err(IdError::Source));
}

#[test]
fn hashed_ids_are_uuids_of_version_8_and_new_ones_of_version_7() {
    assert_eq!(EventId::foreign("shop", "1").unwrap().uuid().get_version_num(), 8);
    assert_eq!(EventId::at("shop", 0, 1).unwrap().uuid().get_version_num(), 8);
    let new = EventId::new();
    assert_eq!(new.uuid().get_version_num(), 7);
    assert!(new.made_at_ms().unwrap() > 1_700_000_000_000);
    assert_eq!(EventId::at("shop", 0, 1).unwrap().made_at_ms(), None);
}

#[test]
fn an_id_is_a_uuid_text_in_json() {
    let id = EventId::from([7; 16]);
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, "\"07070707-0707-0707-0707-070707070707\"");
    assert_eq!(serde_json::from_str::<EventId>(&json).unwrap(), id);
    assert_eq!(format!("{id:?}"), "EventId(07070707-0707-0707-0707-070707070707)");
}

/// Finding 28: whatever is appended while an event is handled again has the ids that it had, in every version.
#[test]
fn derived_ids_have_golden_values() {
    for (consumer, handled, ordinal, time_ms, expected) in [
        (
            "billing",
            "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11",
            0,
            1_720_768_298_030,
            "0190a5c8-7c2e-8fe3-8c15-2b55be751588",
        ),
        (
            "billing",
            "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11",
            1,
            1_720_768_298_030,
            "0190a5c8-7c2e-8e24-9e32-467015ca6ce4",
        ),
        (
            "shipping",
            "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11",
            0,
            1_720_768_298_030,
            "0190a5c8-7c2e-82f6-a7f8-f61df08debfd",
        ),
        (
            "billing",
            "9c85d133-4e23-80c8-b93b-5798cde3d5ff",
            0,
            1_769_848_200_250,
            "019c132c-5c3a-831e-b42c-f94f0484c5ff",
        ),
        (
            "billing",
            "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11",
            4_294_967_295,
            -5,
            "00000000-0000-821d-b5a9-3a92c20feee4",
        ),
        (
            "b",
            "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11",
            0,
            1_152_921_504_606_846_976,
            "ffffffff-ffff-80f2-bba2-5fb87e68dc1d",
        ),
    ] {
        let handled = EventId::from_uuid_text(handled).unwrap();
        let derived = EventId::derived(consumer, handled, ordinal, time_ms);
        assert_eq!(derived.to_string(), expected);
        assert_eq!(derived.uuid().get_version_num(), 8);
    }
}

/// Finding 28: time stands in front, so that inboxes downstream stay flat, over any number of steps.
#[test]
fn derived_ids_keep_the_order_of_time() {
    let new = EventId::new();
    let made = new.made_at_ms().unwrap();
    assert_eq!(new.time_ms(), Some(made));
    let first = EventId::derived("a", new, 0, made);
    assert_eq!((first.time_ms(), first.made_at_ms()), (Some(made), None));
    let second = EventId::derived("b", first, 0, first.time_ms().unwrap());
    assert_eq!(second.time_ms(), Some(made));
    let later = EventId::derived("a", new, 0, made + 1);
    assert!(first < later && second < later && EventId::derived("a", new, 9, made) < later);
    assert_eq!(EventId::from([5; 16]).time_ms(), None);
    // A hash has no time, but for one in two hundred.
    let hashes = (0..10_000).map(|n| EventId::at("orders", 0, n).unwrap());
    let seeming = hashes.filter(|id| id.time_ms().is_some()).count();
    assert!(seeming < 120, "{seeming}");
}

proptest::proptest! {
    /// Finding 28: another consumer, another event or another place is another id.
    #[test]
    fn derived_ids_differ_in_each_part(
        handled: [u8; 16],
        other: [u8; 16],
        ordinal: u32,
        time_ms: i64,
        consumer in "[a-z]{1,8}",
    ) {
        let id = |consumer: &str, handled: [u8; 16], ordinal| {
            EventId::derived(consumer, handled.into(), ordinal, time_ms)
        };
        let one = id(&consumer, handled, ordinal);
        proptest::prop_assert_eq!(one, id(&consumer, handled, ordinal));
        proptest::prop_assert_ne!(one, id(&format!("{consumer}x"), handled, ordinal));
        proptest::prop_assert_ne!(one, id(&consumer, handled, ordinal.wrapping_add(1)));
        if handled != other {
            proptest::prop_assert_ne!(one, id(&consumer, other, ordinal));
        }
    }
}
