//! Schemas that nest: what is refused before anything parses it, and what is parsed.

use super::{NESTED_ALL_MAX, NESTED_MAX, nesting, parse};
use crate::{
    fetched::{Fetched, Format},
    schema::Schema,
};

fn read(format: Format, text: &str, references: Vec<(String, String)>) -> Result<Schema, String> {
    Schema::read(&Fetched { format, text: text.to_owned(), references })
}

/// Messages in an option of a message, each inside of another.
fn option(depth: usize) -> String {
    format!(
        r#"syntax = "proto3"; import "google/protobuf/descriptor.proto"; message Opt {{ Opt a = 1; }}
        extend google.protobuf.MessageOptions {{ Opt opt = 50000; }}
        message M {{ option (opt) = {{ {}{} }}; int64 account = 1; }}"#,
        "a{".repeat(depth),
        "}".repeat(depth)
    )
}

#[test]
fn an_option_of_protobuf_is_nested_as_deep_as_is_bounded() {
    for depth in [NESTED_MAX - 1, 1_500, 200_000] {
        let nested = depth + 2;
        let refused = format!("it is nested {nested} levels deep; at most 127 are allowed");
        let expected = if nested > NESTED_MAX { Err(refused) } else { Ok(()) };
        assert_eq!(read(Format::Protobuf, &option(depth), Vec::new()).map(drop), expected);
    }
    assert!(read(Format::Protobuf, &option(NESTED_MAX - 2), Vec::new()).is_ok());
}

#[test]
fn messages_and_groups_of_protobuf_are_nested_as_deep_as_is_bounded() {
    for (open, close) in [("message M {", "}"), ("message M { optional group G = 1 {", "}}")] {
        let text =
            |depth| format!("syntax = \"proto2\"; {}{}", open.repeat(depth), close.repeat(depth));
        read(Format::Protobuf, &text(12), Vec::new()).unwrap_or_else(|e| panic!("{open}: {e}"));
        let error = read(Format::Protobuf, &text(10_000), Vec::new()).unwrap_err();
        assert!(error.contains("127 are allowed"), "{error}");
    }
}

/// Records that refer to one another, each inside of so many arrays.
fn chain(count: usize, depth: usize) -> Vec<(String, String)> {
    let record = |n: usize| {
        let inner = if n + 1 < count { format!("\"N{}\"", n + 1) } else { "\"int\"".to_owned() };
        let open = r#"{"type":"array","items":"#.repeat(depth);
        let close = "}".repeat(depth);
        let fields = format!(r#"[{{"name":"f","type":{open}{inner}{close}}}]"#);
        format!(r#"{{"type":"record","name":"N{n}","fields":{fields}}}"#)
    };
    // What another refers to is before that one.
    (0..count).rev().map(|n| (format!("N{n}"), record(n))).collect()
}

#[test]
fn schemas_of_avro_that_refer_to_one_another_are_bounded_together() {
    let read = |count, depth| {
        let mut all = chain(count, depth);
        let (_, text) = all.pop().unwrap();
        read(Format::Avro, &text, all).map(drop)
    };
    // Three of each are those of the record.
    let fits = NESTED_ALL_MAX / 123;
    assert_eq!(read(fits, 120), Ok(()));
    assert_eq!(read(195, 15), Ok(()));
    for (count, depth) in [(fits + 1, 120), (195, 120)] {
        let error = read(count, depth).unwrap_err();
        assert!(error.contains("levels deep in total; at most 4000 are allowed"), "{error}");
    }
    assert!(read(1, 200_000).unwrap_err().contains("127 are allowed"));
}

#[test]
fn brackets_in_texts_and_comments_do_not_count() {
    for (text, nested) in [(r#"{"doc": "([{<\"{", "a": ["\\"]}"#, 2), ("{ 'a': { b", 2)] {
        assert_eq!(nesting(text, Format::Avro), Ok(nested), "{text}");
    }
    for (text, nested) in [
        ("message M { // ({[<\n}", 1),
        ("message M { # {{{\n", 1),
        ("/* {{ /* {{ */ } { { /*/ {{{ */", 2),
        (r#"option a = "{{\"{{\x7f'"; { '\'{{"{' {"#, 2),
        (r#"{ "\u00e9\U0001F600\001{\?" {"#, 2),
        ("map<string, a> x = 1; [ ( {", 3),
        ("}}}} {", 1),
    ] {
        assert_eq!(nesting(text, Format::Protobuf), Ok(nested), "{text}");
    }
}

/// The parser of Protobuf goes on behind such a text, wherever that is: nobody may hide brackets in it.
#[test]
fn a_text_whose_end_is_not_known_is_refused() {
    for text in [
        "\"{",
        "'{\n'",
        r#""\"#,
        r#""\q""#,
        r#""\x""#,
        r#""\u12""#,
        r#""\U0001F60""#,
        "/* {",
        "\"\0\"",
    ] {
        assert!(nesting(text, Format::Protobuf).is_err(), "{text}");
    }
}

#[test]
fn a_parser_that_panics_leaves_an_error() {
    let fetched = Fetched { format: Format::Json, text: String::new(), references: Vec::new() };
    let error = parse::<()>(&fetched, |_| panic!("at a schema")).unwrap_err();
    assert_eq!(error, "the parser panicked");
}
