//! Payloads of Avro: what each type becomes, and what is refused.

use apache_avro::{types::Value as Avro, writer::datum::GenericDatumWriter};
use outbox_core::{Payload, internal::DecodeMemory};
use serde_json::{Value, json};

use super::AvroSchema;
use crate::{
    fetched::{Fetched, Format},
    schema::Schema,
};

fn schema(text: &str) -> AvroSchema {
    with(text, &[]).unwrap()
}

fn with(text: &str, references: &[(&str, &str)]) -> Result<AvroSchema, String> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    AvroSchema::read(&Fetched {
        format: Format::Avro,
        text: text.to_owned(),
        references: references.iter().map(owned).collect(),
    })
}

/// The bytes that `apache-avro` writes for a value.
fn written(text: &str, value: Avro) -> Vec<u8> {
    let schema = apache_avro::Schema::parse_str(text).unwrap();
    GenericDatumWriter::builder(&schema).build().unwrap().write_value_to_vec(value).unwrap()
}

fn value_of(schema: &AvroSchema, body: &[u8]) -> Result<Value, String> {
    let (json, _) = super::read::json(&schema.nodes, body)?;
    Ok(serde_json::from_slice(&json).unwrap())
}

fn value_for(schema: &AvroSchema, reader: &AvroSchema, body: &[u8]) -> Result<Value, String> {
    let value = schema.value_for(reader, body, &mut DecodeMemory::default());
    value.map_err(|error| error.to_string())
}

fn refused(text: &str, body: &[u8]) -> String {
    value_of(&schema(text), body).unwrap_err()
}

#[test]
fn each_type_is_written_in_json_as_the_documents_say() {
    let logical =
        |of: &str, logical: &str| format!(r#"{{"type": "{of}", "logicalType": "{logical}"}}"#);
    let fixed = r#"{"type": "fixed", "name": "f", "size": 2}"#.to_owned();
    let decimal = r#"{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}"#;
    let table: Vec<(String, Avro, Value)> = vec![
        (r#""null""#.into(), Avro::Null, json!(null)),
        (r#""boolean""#.into(), Avro::Boolean(true), json!(true)),
        (r#""int""#.into(), Avro::Int(i32::MIN), json!(i32::MIN)),
        (r#""long""#.into(), Avro::Long(i64::MAX), json!(i64::MAX)),
        (r#""float""#.into(), Avro::Float(1.5), json!(1.5)),
        (r#""float""#.into(), Avro::Float(0.1), json!(0.1)),
        (r#""float""#.into(), Avro::Float(f32::MAX), json!(3.402_823_5e38)),
        (r#""float""#.into(), Avro::Float(f32::NAN), json!("NaN")),
        (r#""double""#.into(), Avro::Double(f64::NAN), json!("NaN")),
        (r#""double""#.into(), Avro::Double(f64::NEG_INFINITY), json!("-Infinity")),
        (r#""bytes""#.into(), Avro::Bytes(vec![0, 171, 255]), json!("AKv/")),
        (r#""string""#.into(), Avro::String("é".into()), json!("é")),
        (fixed, Avro::Fixed(2, vec![1, 2]), json!("AQI=")),
        (
            r#"{"type": "enum", "name": "e", "symbols": ["A", "B"]}"#.into(),
            Avro::Enum(1, "B".into()),
            json!("B"),
        ),
        (
            r#"{"type": "array", "items": "int"}"#.into(),
            Avro::Array(vec![Avro::Int(1), Avro::Int(2)]),
            json!([1, 2]),
        ),
        (
            r#"{"type": "map", "values": "int"}"#.into(),
            Avro::Map([("a".to_owned(), Avro::Int(1))].into()),
            json!({"a": 1}),
        ),
        (r#"["null", "int"]"#.into(), Avro::Union(1, Box::new(Avro::Int(7))), json!(7)),
        (decimal.into(), Avro::Decimal([0xfb, 0x2e].into()), json!("-12.34")),
        (logical("int", "date"), Avro::Date(20_484), json!("2026-01-31")),
        (logical("int", "time-millis"), Avro::TimeMillis(1), json!("00:00:00.001")),
        (logical("long", "time-micros"), Avro::TimeMicros(1), json!("00:00:00.000001")),
        (
            logical("long", "timestamp-millis"),
            Avro::TimestampMillis(1_769_848_200_250),
            json!("2026-01-31T08:30:00.250Z"),
        ),
        (
            logical("long", "local-timestamp-micros"),
            Avro::LocalTimestampMicros(-1),
            json!("1969-12-31T23:59:59.999999"),
        ),
        (
            logical("string", "uuid"),
            Avro::Uuid(apache_avro::Uuid::from_u128(1)),
            json!("00000000-0000-0000-0000-000000000001"),
        ),
    ];
    for (text, value, expected) in table {
        let body = written(&text, value);
        let schema = schema(&text);
        assert_eq!(value_of(&schema, &body).as_ref(), Ok(&expected), "{text}");
        assert_eq!(value_for(&schema, &schema, &body).as_ref(), Ok(&expected), "{text}, resolved");
        // Cut off anywhere, it is no value.
        for end in 0..body.len() {
            assert!(value_of(&schema, &body[..end]).is_err(), "{text}, {end} bytes");
        }
        let longer = [&body[..], &[0]].concat();
        assert_eq!(value_of(&schema, &longer), Err("it has trailing bytes".into()), "{text}");
    }
}

const LIST: &str = r#"{"type": "record", "name": "a.Node", "fields": [
    {"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]}"#;

#[test]
fn names_are_found_within_their_namespace_and_in_other_schemas() {
    let list = schema(LIST);
    let expected = json!({"value": 1, "next": {"value": 2, "next": null}});
    assert_eq!(value_of(&list, &[2, 2, 4, 0]), Ok(expected));
    let order = r#"{"type": "record", "name": "Order", "namespace": "a", "fields": [
        {"name": "money", "type": "b.Money"}, {"name": "tip", "type": ["null", "b.Money"]}]}"#;
    let money = r#"{"type": "record", "name": "Money", "namespace": "b", "fields": [
        {"name": "cents", "type": "Cents"}]}"#;
    let cents = r#"{"type": "enum", "name": "Cents", "namespace": "b", "symbols": ["ONE"]}"#;
    let order = with(order, &[("cents", cents), ("money", money)]).unwrap();
    let expected = json!({"money": {"cents": "ONE"}, "tip": {"cents": "ONE"}});
    assert_eq!(value_of(&order, &[0, 2, 0]), Ok(expected));
    assert!(with(money, &[]).is_err(), "it refers to what nobody gives");
}

#[test]
fn an_older_payload_is_resolved_to_the_readers_schema() {
    let field = |name: &str, rest: &str| format!(r#"{{"name": "{name}", {rest}}}"#);
    let record = |fields: &[String]| {
        format!(r#"{{"type": "record", "name": "Paid", "fields": [{}]}}"#, fields.join(", "))
    };
    let old = record(&[field("amount", r#""type": "int""#), field("note", r#""type": "string""#)]);
    let new = record(&[
        field("amount", r#""type": "long""#),
        field("currency", r#""type": "string", "default": "EUR""#),
    ]);
    let body = [20, 2, b'x'];
    let value = value_for(&schema(&old), &schema(&new), &body);
    assert_eq!(value, Ok(json!({"amount": 10, "currency": "EUR"})));
    let strict = record(&[field("other", r#""type": "string""#)]);
    let error = value_for(&schema(&old), &schema(&strict), &body).unwrap_err();
    assert!(error.contains("it cannot be read by the reader's schema"), "{error}");
}

/// Case by case; the payload's text (`s3cret`) is never told.
#[test]
fn what_is_no_avro_of_its_schema_is_refused() {
    let table: [(&str, &[u8], &str); 17] = [
        (r#""boolean""#, &[2], "neither 0 nor 1"),
        (r#""int""#, &[0xfe, 0xff, 0xff, 0xff, 0x7f], "more than 32 bits"),
        (r#""long""#, &[0xff; 11], "a number is truncated, or too long"),
        (r#""string""#, b"\x0cs3cre", "it is truncated"),
        (r#""string""#, &[1], "a length is negative"),
        (r#""string""#, &[0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1], "it is truncated"),
        (r#""string""#, &[2, 0xff], "not UTF-8"),
        (r#""bytes""#, &[0x80, 0x80, 0x80, 0x80, 0x10, 1], "it is truncated"),
        (r#"["null", "int"]"#, &[4], "a branch that its schema lacks"),
        (r#"["null", "int"]"#, &[1], "a branch that its schema lacks"),
        (r#"{"type": "enum", "name": "e", "symbols": ["A"]}"#, &[2], "a symbol that its schema"),
        (r#"{"type": "array", "items": "null"}"#, &[0xfe, 255, 255, 15, 0], "than 64 times"),
        (r#"{"type": "array", "items": "int"}"#, &[2, 2], "a number is truncated"),
        (r#"{"type": "int", "logicalType": "date"}"#, &[0xfe, 255, 255, 255, 15], "years 0000"),
        (r#"{"type": "int", "logicalType": "time-millis"}"#, &[1], "outside of a day"),
        (r#"{"type": "string", "logicalType": "uuid"}"#, b"\x0cs3cret", "a uuid is malformed"),
        (
            r#"{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}"#,
            &[[0xc6, 6].as_slice(), &[1; 419]].concat(),
            "a decimal is too long",
        ),
    ];
    for (text, body, word) in table {
        let error = refused(text, body);
        assert!(error.contains(word) && !error.contains("s3cre"), "{text} of {body:?}: {error}");
    }
}

/// Ten megabytes that say "and one more inside": no stack has room for that.
#[test]
fn nesting_has_an_end() {
    assert_eq!(refused(LIST, &vec![2; 10_000_000]), "it is nested too deep");
    let endless = r#"{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}"#;
    assert_eq!(refused(endless, &[]), "it is nested too deep");
    let list = schema(LIST);
    assert!(value_for(&list, &list, &vec![2; 10_000_000]).is_err());
}

/// Arrays of arrays of nulls: each takes three bytes, and could hold a million values.
#[test]
fn values_without_bytes_are_bounded_by_those_that_have_some() {
    let text = r#"{"type": "array", "items": {"type": "array", "items": "null"}}"#;
    let mut body = vec![0xd0, 0x0f]; // 1000 arrays
    body.extend([0x80, 0x89, 0x7a, 0].repeat(1000)); // of 1,000,000 nulls
    body.push(0);
    assert!(refused(text, &body).contains("more than 64 times its length"));
}

/// Records of nulls take no bytes, but have a name for each.
#[test]
fn names_are_bounded_by_the_payload() {
    let text = r#"{"type": "array", "items": {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "null"}, {"name": "NAME", "type": "null"}]}}"#;
    let few = value_of(&schema(text), &[0xd0, 0x0f, 0]).unwrap();
    assert_eq!(few.as_array().map(Vec::len), Some(1000));
    let text = text.replace("NAME", &"n".repeat(2000));
    assert!(refused(&text, &[0xd0, 0x0f, 0]).contains("the names of its fields"));
    let symbol = "S".repeat(2000);
    let text = format!(
        r#"{{"type": "array", "items": {{"type": "enum", "name": "e", "symbols": ["{symbol}"]}}}}"#
    );
    let body = [vec![0xd0, 0x0f], vec![0; 1001]].concat();
    assert!(refused(&text, &body).contains("more than 64 times its length"));
}

/// 12.34 is never read as 1.234.
#[test]
fn a_reader_with_another_scale_is_refused() {
    let of = |scale: u32| {
        let decimal = format!(
            r#"{{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": {scale}}}"#
        );
        [
            decimal.clone(),
            format!(r#"["null", {decimal}]"#),
            format!(r#"{{"type": "array", "items": {decimal}}}"#),
            format!(r#"{{"type": "map", "values": ["null", {decimal}]}}"#),
        ]
        .map(|field| {
            let text = r#"{"type": "record", "name": "R", "fields": [{"name": "x", "type": X}]}"#;
            schema(&text.replace('X', &field))
        })
    };
    let bodies: [&[u8]; 4] =
        [&[4, 4, 0xd2], &[2, 4, 4, 0xd2], &[2, 4, 4, 0xd2, 0], &[2, 2, b'a', 2, 4, 4, 0xd2, 0]];
    for ((writer, reader), body) in of(2).iter().zip(&of(3)).zip(bodies) {
        let error = value_for(writer, reader, body).unwrap_err();
        assert!(error.contains("gives a decimal of it another scale"), "{error}");
        assert!(value_for(writer, writer, body).is_ok(), "{body:?}");
    }
}

#[test]
fn what_is_no_schema_is_refused_by_name() {
    for text in
        ["", "{", r#"{"type": "record", "name": "R", "fields": [{"name": "x", "type": "Y"}]}"#]
    {
        let error = with(text, &[]).unwrap_err();
        assert!(error.starts_with("it is not an Avro schema: "), "{error}");
    }
    let fetched = Fetched { format: Format::Json, text: "{}".into(), references: Vec::new() };
    assert_eq!(Schema::read(&fetched).unwrap().decode(&Payload::new(b"[1]"), None), Ok(json!([1])));
}

/// Each takes one byte, and 700 as a tree of JSON.
#[test]
fn a_million_records_are_read_without_a_tree_and_refused_where_one_is_wanted() {
    let item =
        r#"{"type": "record", "name": "I", "fields": [{"name": "n", "type": ["null", "string"]}]}"#;
    let list = format!(r#"{{"type": "array", "items": {item}}}"#);
    let of = |count: &[u8], items: usize| [count, &vec![0; items + 1]].concat();
    let few = of(&[0xd0, 0x0f], 1_000);
    let many = of(&[0x80, 0x92, 0xf4, 0x01], 2_000_000);
    let read = Schema::Avro(Box::new(schema(&list)));
    let raw = read.decode::<Box<serde_json::value::RawValue>>(&Payload::new(&many), None).unwrap();
    assert!(raw.get().len() > 22_000_000 && raw.get().starts_with(r#"[{"n":null},"#));
    let reader = std::sync::Arc::new(schema(&list));
    assert!(read.decode::<Value>(&Payload::new(&few), Some(&reader)).is_ok());
    let error = read.decode::<Value>(&Payload::new(&many), Some(&reader)).unwrap_err();
    assert!(error.to_string().contains("MiB of memory once it is decoded"), "{error}");
}
