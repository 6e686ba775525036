//! Codecs: what they accept, and that their errors keep the payload to themselves.

use std::collections::HashMap;

use bytes::Bytes;
use outbox_core::{CodecError, Decode, Encode, Header, Json, Payload};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paid {
    amount: u32,
    #[serde(default)]
    method: Option<Method>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Method {
    Card,
    Cash,
}

fn refused<T: Serialize + serde::de::DeserializeOwned>(payload: &str) -> String {
    match Decode::<T>::decode(&Json, &Payload::new(payload.as_bytes())) {
        Ok(_) => panic!("decoded"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn json_round_trips() {
    let paid = Paid { amount: 250, method: Some(Method::Card) };
    let payload = Json.encode(&paid).unwrap();
    assert_eq!(&payload[..], br#"{"amount":250,"method":"Card"}"#);
    assert_eq!(Decode::<Paid>::decode(&Json, &Payload::new(&payload)).unwrap(), paid);
}

/// I1: an error says where and what was expected, and never what stood there.
#[test]
fn errors_name_the_place_and_never_the_payload() {
    let syntax = "the payload is not JSON:";
    let shape = "the payload does not fit the event's type:";
    for (payload, expected) in [
        (r#"{"amount": secret}"#, format!("{syntax} expected value at line 1 column 12")),
        ("", format!("{syntax} EOF while parsing a value at line 1 column 0")),
        (r#"{"amount": 1} secret"#, format!("{syntax} trailing characters at line 1 column 15")),
        (
            r#"{"amount": "secret"}"#,
            format!("{shape} invalid type, expected u32 at line 1 column 19"),
        ),
        (
            "{\n\"amount\": -4711}",
            format!("{shape} invalid value, expected u32 at line 2 column 15"),
        ),
        ("{}", format!("{shape} missing field `amount` at line 1 column 2")),
        (
            r#"{"secret": 1}"#,
            format!("{shape} unknown field, expected `amount` or `method` at line 1 column 9"),
        ),
        (
            r#"{"amount": 1, "method": "a, expected secret"}"#,
            format!("{shape} unknown variant, expected `Card` or `Cash` at line 1 column 44"),
        ),
    ] {
        assert_eq!(refused::<Paid>(payload), expected);
    }
}

#[test]
fn errors_of_the_types_own_making_are_not_repeated() {
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(try_from = "String")]
    struct Even(String);
    impl TryFrom<String> for Even {
        type Error = String;
        fn try_from(text: String) -> Result<Self, String> {
            Err(format!("not even: {text}"))
        }
    }
    let said = refused::<Even>(r#""secret""#);
    assert!(said.contains("a value was refused"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn a_type_without_fields_leaks_no_field_either() {
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    let said = refused::<Nothing>(r#"{"x, expected secret": 1}"#);
    assert!(!said.contains("secret"), "{said}");
}

/// I2: deep nesting is an error, not a stack overflow.
#[test]
fn deep_json_is_refused() {
    let deep = "[".repeat(1_000_000);
    let said = refused::<serde_json::Value>(&deep);
    assert!(said.contains("recursion limit exceeded"), "{said}");
}

/// E8.
#[test]
fn a_tombstone_is_decoded_only_where_the_type_can_stand_for_it() {
    let tombstone = Payload::tombstone();
    assert_eq!(Decode::<Paid>::decode(&Json, &tombstone), Err(CodecError::Tombstone));
    assert_eq!(Decode::<Option<Paid>>::decode(&Json, &tombstone), Ok(None));
}

#[test]
fn a_payload_shows_a_codec_what_it_is_of_and_a_log_no_bytes() {
    let header = |value: &'static [u8]| Header {
        name: "tenant".into(),
        value: Some(Bytes::from_static(value)),
    };
    let headers = [header(b"s3cret-1"), header(b"s3cret-2")];
    let payload = Payload::new(b"s3cret").with_headers(&headers).with_topic("orders");
    let payload = payload.with_schema_version(3);
    assert_eq!(payload.header("tenant"), Some(&b"s3cret-2"[..]), "the last one counts");
    assert_eq!((payload.header("other"), payload.schema_version()), (None, Some(3)));
    let inner = payload.with_bytes(&payload.bytes().unwrap()[2..]);
    assert_eq!((inner.bytes(), inner.topic()), (Ok(&b"cret"[..]), "orders"));
    let shown = format!("{payload:?}");
    assert!(shown.contains("bytes: Some(6)") && !shown.contains("cret"), "{shown}");
}

#[test]
fn a_value_without_encoding_is_an_error() {
    let map = HashMap::from([((1, 2), 3)]);
    let error = outbox_core::OutboxEvent::new(
        "X",
        &outbox_core::Aggregate::new("A", "1").unwrap(),
        &map.into_iter().collect::<HashMap<(i32, i32), i32>>(),
    );
    assert_eq!(error.unwrap_err().to_string(), "cannot encode the value: key must be a string");
}
