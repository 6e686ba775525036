//! Payloads of Protobuf: what each type becomes, and what is refused.

use outbox_core::internal::DecodeMemory;
use serde_json::{Value, json};

use super::ProtobufSchema;
use crate::fetched::{Fetched, Format};

const ORDER: &str = r#"
    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    import "confluent/meta.proto";
    import "money.proto";
    message Order {
        int64 id = 1 [(confluent.field_meta).doc = "its number"];
        string note = 2;
        bytes raw = 3;
        State state = 4;
        google.protobuf.Timestamp at = 5;
        Money total = 6;
        map<string, int32> counts = 7;
        repeated Order parts = 8;
        optional string tip = 9;
        uint64 big = 10;
        double rate = 11;
        enum State { OPEN = 0; PAID = 1; }
    }
    message Other {
        map<string, string> labels = 1;
        message Inner { int32 n = 1; }
    }
"#;

const MONEY: &str = r#"syntax = "proto3"; package shop; message Money { int64 cents = 1; }"#;

fn with(text: &str, references: &[(&str, &str)]) -> Result<ProtobufSchema, String> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    ProtobufSchema::read(&Fetched {
        format: Format::Protobuf,
        text: text.to_owned(),
        references: references.iter().map(owned).collect(),
    })
}

fn order() -> ProtobufSchema {
    with(ORDER, &[("money.proto", MONEY)]).unwrap()
}

fn value(body: &[u8]) -> Result<Value, String> {
    value_of(&order(), body)
}

fn value_of(schema: &ProtobufSchema, body: &[u8]) -> Result<Value, String> {
    Ok(serde_json::from_slice(&json_of(schema, body)?).unwrap())
}

fn json_of(schema: &ProtobufSchema, body: &[u8]) -> Result<Vec<u8>, String> {
    schema.json(body, &mut DecodeMemory::default()).map_err(|error| error.to_string())
}

/// A field that has these bytes, behind their length.
fn within(tag: u8, inner: &[u8]) -> Vec<u8> {
    let mut length = inner.len();
    let mut outer = vec![tag];
    while length >= 0x80 {
        outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    outer.push(u8::try_from(length).unwrap());
    outer.extend(inner);
    outer
}

#[test]
fn each_type_is_written_in_json_as_the_documents_say() {
    let body: &[u8] = &[
        0, // the first message
        0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, // id
        0x12, 1, b'x', // note
        0x1a, 2, 1, 2, // raw
        0x20, 1, // state
        0x2a, 2, 0x08, 1, // at
        0x32, 2, 0x08, 5, // total
        0x3a, 5, 0x0a, 1, b'a', 0x10, 3, // counts
        0x42, 2, 0x08, 9, // parts
        0x50, 7, // big
        0x59, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, // rate
    ];
    let value = value(body).unwrap();
    for (name, expected) in [
        ("id", json!(i64::MAX)),
        ("note", json!("x")),
        ("raw", json!("AQI=")),
        ("state", json!("PAID")),
        ("at", json!("1970-01-01T00:00:01Z")),
        ("total", json!({"cents": 5})),
        ("counts", json!({"a": 3})),
        ("big", json!(7)),
        ("rate", json!("NaN")),
    ] {
        assert_eq!(value[name], expected, "{name}");
    }
    assert_eq!(value["parts"][0]["id"], json!(9));
    assert!(value.get("tip").is_none(), "what may be missing, and is");
    assert_eq!(value["parts"][0]["note"], json!(""), "what may not has its default");
}

#[test]
fn a_message_is_found_by_its_place_among_those_that_are_declared() {
    assert_eq!(value(&[2, 2]), Ok(json!({"labels": {}})));
    assert_eq!(value(&[4, 2, 0, 0x08, 7]), Ok(json!({"n": 7})), "not the one of the map");
    for indexes in [&[2, 4][..], &[4, 2, 2], &[4, 0, 0]] {
        let error = value(indexes).unwrap_err();
        assert!(error.contains("no message at the indexes"), "{indexes:?}: {error}");
    }
}

/// Case by case; the payload's text (`s3cret`) is never told.
#[test]
fn what_is_no_protobuf_of_its_schema_is_refused() {
    let deep: Vec<u8> = {
        // Parts inside of parts, each with its length.
        let mut inner: Vec<u8> = Vec::new();
        for _ in 0..200 {
            inner = within(0x42, &inner);
        }
        [vec![0], inner].concat()
    };
    let table: [(&[u8], &str); 8] = [
        (&[], "the indexes of its message are truncated"),
        (b"\0\x12\x07s3cret", "truncated"),
        (b"\0\x0a\x06s3cret", "does not match the types"),
        (b"\0\x12\x02\xff\xff", "does not match the types"),
        (&[0, 0x08], "truncated"),
        (&[0, 0x12, 0xff, 0xff, 0xff, 0xff, 0x0f], "truncated"),
        (&[0, 0x2a, 10, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], ""),
        (&deep, "nested too deep"),
    ];
    for (body, word) in table {
        let error = value(body).unwrap_err();
        assert!(error.contains(word) && !error.contains("s3cret"), "{body:?}: {error}");
    }
}

/// Each is decoded anew, so nobody but us counts how many there are.
#[test]
fn any_inside_of_any_has_an_end() {
    let boxes = with(
        r#"
        syntax = "proto3";
        import "google/protobuf/any.proto";
        message Box { google.protobuf.Any any = 1; Box inner = 2; }
        "#,
        &[],
    );
    let boxes = boxes.unwrap();
    let in_any =
        |inner: &[u8]| within(0x0a, &[within(0x0a, b"types/Box"), within(0x12, inner)].concat());
    let in_boxes = |count: usize, inner: Vec<u8>| (0..count).fold(inner, |it, _| within(0x12, &it));
    let in_anys = |count: usize| (0..count).fold(Vec::<u8>::new(), |it, _| in_any(&it));
    let value = |message: Vec<u8>| value_of(&boxes, &[vec![0], message].concat());
    let two = json!({"any": {"@type": "types/Box", "any": {"@type": "types/Box"}}});
    assert_eq!(value(in_anys(2)), Ok(two));
    assert!(value(in_anys(4)).is_ok());
    for count in [5, 3000] {
        let error = value(in_anys(count)).unwrap_err();
        assert!(error.contains("more than 4 Any are nested"), "{error}");
    }
    assert!(value(in_boxes(40, in_any(&in_boxes(40, Vec::new())))).is_ok());
    let error = value(in_boxes(60, in_any(&in_boxes(60, Vec::new())))).unwrap_err();
    assert!(error.contains("it is nested too deep"), "{error}");
}

/// Of the numbers that are this one in four bytes, the shortest.
#[test]
fn a_float_of_four_bytes_has_its_own_digits() {
    let rate = with(r#"syntax = "proto3"; message Rate { float rate = 1; }"#, &[]).unwrap();
    let body = [vec![0, 0x0d], 0.1_f32.to_le_bytes().to_vec()].concat();
    assert_eq!(json_of(&rate, &body).as_deref(), Ok(&br#"{"rate":0.1}"#[..]));
}

/// Items without anything in them: two bytes each, and thirty fields of JSON.
#[test]
fn fields_that_are_not_set_are_bounded_by_the_payload() {
    use std::fmt::Write as _;
    let mut text = r#"syntax = "proto3"; message List { repeated Item items = 1; }"#.to_owned();
    text.push_str("message Item {");
    for number in 1..=30 {
        write!(text, "string field_{number} = {number};").unwrap();
    }
    text.push('}');
    let list = with(&text, &[]).unwrap();
    let items = |count: usize| [vec![0_u8], [0x0a, 0].repeat(count)].concat();
    assert!(json_of(&list, &items(500)).is_ok());
    let error = json_of(&list, &items(500_000)).unwrap_err();
    assert!(error.contains("more than 64 times its length"), "{error}");
    let full = [0x0a, 22].into_iter().chain(within(0x0a, b"twenty bytes of text"));
    let full: Vec<u8> = [0].into_iter().chain(full.collect::<Vec<u8>>().repeat(5000)).collect();
    assert!(json_of(&list, &full).is_ok());
}

#[test]
fn what_is_no_schema_is_refused_by_name() {
    for (text, references) in
        [("message {", &[][..]), (ORDER, &[]), (ORDER, &[("money.proto", "message {")])]
    {
        let error = with(text, references).unwrap_err();
        assert!(error.starts_with("it is not a Protobuf schema: "), "{error}");
    }
}

/// What is read as a message takes hundreds of bytes for each that it has: nothing is read before that is known.
#[test]
fn a_message_is_as_large_as_its_values_before_it_is_decoded() {
    let text = r#"syntax = "proto3"; message List { repeated Item items = 1; repeated int32 n = 2; Item one = 3; }
        message Item { int64 a = 1; string b = 2; List list = 3; }"#;
    let list = with(text, &[]).unwrap();
    let message = list.message(&[0]).unwrap();
    let bytes = |body: &[u8]| super::size::decoded_bytes(&message, body);
    let per = |one: &[u8]| bytes(&one.repeat(2)) - bytes(one);
    assert_eq!(per(&[0x0a, 0]), 168 + 70, "an item with nothing in it");
    assert_eq!(per(&[0x0a, 2, 0x08, 1]), 168 + 70 + 770 + 70, "an item with a field");
    assert_eq!(bytes(&[0x12, 3, 1, 0x80, 1]) - bytes(&[0x12, 0]), 2 * 70, "numbers");
    assert_eq!(per(&[0x58, 1]), 70, "a field that nobody knows");
    assert_eq!(per(&[0x5b, 0x5b, 0x5c, 0x5c]), 2 * (168 + 770) + 4 * 70, "groups");
    for cut_off in [&[0x0a][..], &[0x0a, 9], &[0x80], &[7], &[0x0c], &[0x09, 1]] {
        assert!(bytes(cut_off) < 2_000, "{cut_off:?}");
    }
    let items = |count: usize| [vec![0], [0x0a, 2, 0x08, 1].repeat(count)].concat();
    assert!(json_of(&list, &items(200_000)).is_ok());
    let error = json_of(&list, &items(260_000)).unwrap_err();
    assert!(error.contains("MiB of memory once it is decoded"), "{error}");
}
