//! Values of events and what columns make of them: what is taken, and the sentences for what is not.

use super::{
    column,
    column::Column,
    value::{Given, put, room},
};

fn column(text: &str) -> Column {
    column::read([(&"c".to_owned(), &text.to_owned())]).unwrap().remove(0)
}

/// What a column makes of a value, as `Debug` shows it.
fn taken(text: &str, given: Option<Given<'_>>) -> Result<String, String> {
    let column = column(text);
    let mut values = room(column.kind, 1);
    put(&column, given, &mut values)?;
    let shown = format!("{values:?}");
    let inside = shown.split_once('[').and_then(|(_, rest)| rest.strip_suffix("])"));
    Ok(inside.unwrap_or(&shown).to_owned())
}

fn json(text: &str, json: &str) -> Result<String, String> {
    taken(text, Some(Given::Json(json)))
}

fn bytes(text: &str, bytes: &[u8]) -> Result<String, String> {
    taken(&format!("{text} from header:h"), Some(Given::Bytes(bytes)))
}

#[test]
fn json_becomes_what_its_column_is() {
    let table = [
        ("bool", "true", "Some(true)"),
        ("bytea", r#""AKv/""#, "Some([0, 171, 255])"),
        ("date", r#""1970-01-02""#, "Some(1)"),
        ("float8", "1.5e3", "Some(1500.0)"),
        ("float8", "7", "Some(7.0)"),
        ("int4", "-2147483648", "Some(-2147483648)"),
        ("int8", "9223372036854775807", "Some(9223372036854775807)"),
        ("jsonb", r#"{"a": [1.50, "x"]}"#, r#"Some("{\"a\": [1.50, \"x\"]}")"#),
        ("jsonb", r#""\\u0000""#, r#"Some("\"\\\\u0000\"")"#),
        ("numeric", "12.30", r#"Some("12.30")"#),
        ("numeric", r#""-0.10""#, r#"Some("-0.10")"#),
        ("numeric", "1e6", r#"Some("1e6")"#),
        ("text", r#""pl\u0061in""#, r#"Some("plain")"#),
        ("text", r#""""#, r#"Some("")"#),
        ("timestamptz", r#""1970-01-01T00:00:01Z""#, "Some(1000000)"),
        ("timestamptz", "1767323045678", "Some(1767323045678000)"),
        ("timestamptz", "-1000", "Some(-1000000)"),
        ("timestamptz from /c in millis", "1000", "Some(1000000)"),
        ("text?", "null", "None"),
        ("jsonb?", "null", "None"),
    ];
    for (text, given, expected) in table {
        assert_eq!(json(text, given).as_deref(), Ok(expected), "{text} of {given}");
    }
    let id = r#""0198c5a0-7b5e-7c3d-8000-000000000001""#;
    assert!(json("uuid", id).unwrap().contains("0198c5a0-7b5e-7c3d-8000-000000000001"));
    assert_eq!(taken("int8?", None).as_deref(), Ok("None"));
}

#[test]
fn headers_and_keys_are_texts() {
    let table: [(&str, &[u8], &str); 9] = [
        ("bool", b"false", "Some(false)"),
        ("bytea", &[0, 255], "Some([0, 255])"),
        ("date", b"1970-01-02", "Some(1)"),
        ("float8", b"2.5", "Some(2.5)"),
        ("int4", b"7", "Some(7)"),
        ("jsonb", b"[1]", r#"Some("[1]")"#),
        ("numeric", b"0.10", r#"Some("0.10")"#),
        ("text", b"", r#"Some("")"#),
        ("timestamptz", b"1767323045678", "Some(1767323045678000)"),
    ];
    for (text, given, expected) in table {
        assert_eq!(bytes(text, given).as_deref(), Ok(expected), "{text} of {given:?}");
    }
}

/// Column, place, expected type and found kind are named; the value (`s3cret`, 77777) never is.
#[test]
fn what_does_not_fit_is_told_without_the_value() {
    let table = [
        ("bool", r#""s3cret""#, "expected bool (true or false)", "found text;"),
        ("bool", "77777", "expected bool", "found a number;"),
        ("bytea", r#""s3cret!""#, "base64 text", "found text that is not base64;"),
        ("bytea", "77777", "base64 text", "found a number;"),
        ("date", r#""s3cret""#, "such as 2026-01-31", "found text that is not a date;"),
        ("date", "77777", "expected date", "found a number;"),
        ("float8", r#""77777""#, "expected float8 (a number)", "found text;"),
        ("float8", "77777e999", "expected float8", "found a number out of range;"),
        ("int4", "77777777777", "32-bit", "found a number that is not a 32-bit integer;"),
        ("int8", "77777.5", "64-bit", "found a number that is not a 64-bit integer;"),
        ("int8", "7e2", "64-bit", "found a number that is not a 64-bit integer;"),
        ("int8", r#""77777""#, "64-bit", "found text;"),
        ("int8", "true", "64-bit", "found a boolean;"),
        ("int8", "[77777]", "64-bit", "found an array;"),
        ("int8", r#"{"a":"s3cret"}"#, "64-bit", "found an object;"),
        ("jsonb", r#"{"s3cret":"\u0000"}"#, "any JSON", "found an object with a NUL character"),
        (
            "jsonb",
            r#"["\ud800s3cret"]"#,
            "any JSON",
            "found an array with half of a surrogate pair",
        ),
        (
            "numeric",
            r#""s3cret""#,
            "or a number as text",
            "found text that is not a decimal \
                                                          number",
        ),
        ("numeric", "1e77777", "expected numeric", "found a number that is not a decimal number"),
        ("numeric", r#"".5""#, "expected numeric", "found text that is not a decimal number"),
        ("text", "77777", "expected text", "found a number;"),
        ("text", r#""s3cret\u0000""#, "expected text", "found text with a NUL character;"),
        ("text", r#""s3cret\ud800""#, "expected text", "found text with half of a surrogate pair;"),
        ("timestamptz", r#""s3cret""#, "an RFC 3339 time", "found text that is not a time;"),
        ("timestamptz", r#""77777""#, "an RFC 3339 time", "found text that is not a time;"),
        (
            "timestamptz",
            "777777777777777777",
            "an RFC 3339 time",
            "found a number outside of the years",
        ),
        ("timestamptz", "1767323045", "milliseconds since 1970", "or its unit: `in seconds`"),
        ("timestamptz", "20485", "milliseconds since 1970", "probably seconds or days"),
        ("timestamptz from /c in millis", "253402300800000", "RFC 3339", "found a number outside"),
        ("uuid", r#""s3cret""#, "a UUID as text", "found text that is not a UUID;"),
        ("uuid", "77777", "a UUID as text", "found a number;"),
        ("int8", "null", "64-bit", "found nothing or null;"),
    ];
    for (text, given, expected, found) in table {
        let error = json(text, given).unwrap_err();
        for part in ["column `c`", "in the payload at `/c`", expected, found, "fix its producer"] {
            assert!(error.contains(part), "{part:?} is missing for {text} of {given}: {error}");
        }
        assert!(!error.contains("s3cret") && !error.contains("77777"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = bytes("int8", b"s3cret").unwrap_err();
    assert!(
        error.contains("in the header `h`, found text that is not a 64-bit integer"),
        "{error}"
    );
    let error = bytes("text", &[0xff]).unwrap_err();
    assert!(error.contains("found bytes that are not UTF-8"), "{error}");
    let error = bytes("float8", b"NaN").unwrap_err();
    assert!(error.contains("out of range"), "{error}");
    let error = taken("uuid", None).unwrap_err();
    assert!(error.contains("found nothing or null") && error.contains("write `uuid?`"), "{error}");
}

#[test]
fn what_has_another_unit_or_a_schema_is_told_so() {
    let error = bytes("timestamptz", b"1767323045").unwrap_err();
    assert!(error.contains("in the header `h`, found a number that is in 1970"), "{error}");
    let key = taken("text from key", Some(Given::Bytes(b"\0\0\0\0\x01\x0eorder-7"))).unwrap_err();
    assert!(key.contains("a schema registry") && key.contains("only `bytea from key`"), "{key}");
}

#[test]
fn json_is_taken_as_databases_take_it_and_else_told_why() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    for taken in [&nested(500), "1e400", "[-1.5E-900]", r#"{"a":"\ud83d\ude00"}"#, r#""\\u0000""#] {
        json("jsonb", taken).unwrap_or_else(|error| panic!("{taken}: {error}"));
    }
    for (refused, why) in [
        (nested(501), "found an array that is nested too deep (more than 500 levels)"),
        (r#"{"a":"\ud83d"}"#.into(), "found an object with half of a surrogate pair in it"),
        (r#"["\ude00"]"#.into(), "found an array with half of a surrogate pair in it"),
        (r#"{"a\u0000":1}"#.into(), "found an object with a NUL character in it"),
        ("[1e77777]".into(), "found an array with a number in it that is too long or out of range"),
    ] {
        let error = json("jsonb", &refused).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
