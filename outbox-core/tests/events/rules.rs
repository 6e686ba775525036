//! Rules: what a configuration may say.

use outbox_core::{ReadRules, Reader, Source, Sources};

use crate::{BYTES_MAX, source};

/// Why rules with these keys beside `id` and `type` are refused.
fn refused(id: &str, more: &str) -> String {
    let rules = format!(r#"{{"id": {id}, "type": "header:t"{more}}}"#);
    let rules: ReadRules = serde_json::from_str(&rules).unwrap();
    Reader::new(rules, BYTES_MAX).unwrap_err().to_string()
}

fn unreadable(rules: &str) -> String {
    serde_json::from_str::<ReadRules>(rules).unwrap_err().to_string()
}

#[test]
fn rules_survive_being_written() {
    let own = ReadRules::own();
    let written = serde_json::to_string(&own).unwrap();
    assert_eq!(serde_json::from_str::<ReadRules>(&written).unwrap(), own);
    for text in [
        r#"{"id":"key:hex","type":"topic","aggregate_id":"key"}"#,
        r#"{"id":["header:a","position"],"id_source":"header:s","type":"value:b:c","aggregate_id":"pointer:/x~1y/~0/0","schema_version":"value:1"}"#,
    ] {
        let rules: ReadRules = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&rules).unwrap(), text);
        Reader::new(rules, BYTES_MAX).unwrap();
    }
}

#[test]
fn what_is_left_out_is_the_key_and_the_topic() {
    let read: ReadRules =
        serde_json::from_str(r#"{"id": "header:a", "type": "header:b"}"#).unwrap();
    assert_eq!(read, ReadRules::new(source("header:a"), source("header:b")));
    assert_eq!(read.aggregate_id, Source::Key.into());
    assert_eq!(read.aggregate_type, Source::Topic.into());
}

#[test]
fn a_typo_is_told() {
    assert!(unreadable("{}").contains("missing field `id`"));
    assert!(unreadable(r#"{"idd": "key"}"#).starts_with("unknown field `idd`, expected one of"));
    assert!(unreadable(r#"{"id": 5}"#).contains("expected a place such as `header:NAME`"));
    assert!(unreadable(r#"{"id": []}"#).contains("a list of 0 places"));
    for wrong in ["head:x", "header", "value:", "keys", "", "key:", "topic:x", "pointer"] {
        let sentence = unreadable(&format!(r#"{{"id": "{wrong}"}}"#));
        assert!(sentence.contains(&format!("`{wrong}` is not a place")), "{sentence}");
    }
    for wrong in
        ["pointer:x", "pointer:/a~2", "pointer:/~", &format!("pointer:{}", "/a".repeat(33))]
    {
        assert!(unreadable(&format!(r#"{{"id": "{wrong}"}}"#)).contains("is not a JSON pointer"));
    }
    for wrong in ["topic:a b*", "topic:a*b*"] {
        assert!(
            unreadable(&format!(r#"{{"id": "{wrong}"}}"#)).contains("is not a part of a topic")
        );
    }
    for wrong in ["header:", "header:a|b"] {
        assert!(unreadable(&format!(r#"{{"id": "{wrong}"}}"#)).contains("is not a header name"));
    }
}

/// B11, finding 3: each contradiction is refused with what to change.
#[test]
fn contradictions_are_refused() {
    for constant in ["topic", "value:x"] {
        let sentence = refused(&format!(r#"["header:x", "{constant}"]"#), "");
        assert!(sentence.starts_with("`id` cannot be a constant"), "{sentence}");
    }
    for (id, more) in [
        (r#"["position", "key"]"#, ""),
        (r#""key""#, r#", "aggregate_type": "position""#),
        (r#""key""#, r#", "aggregate_id": ["key", "position"]"#),
    ] {
        assert!(refused(id, more).contains("only be the last place of `id`"));
    }
    for two_lanes in [r#"["key", "key:hex"]"#, r#"["key", "pointer:/x"]"#] {
        let sentence = refused(r#""key""#, &format!(r#", "aggregate_id": {two_lanes}"#));
        assert!(sentence.contains("could then be in two lanes"), "{sentence}");
    }
    assert_eq!(
        refused(r#""key""#, r#", "aggregate_version": "value:one""#),
        "the constant in `aggregate_version` is not an integer within range"
    );
}

#[test]
fn rules_can_be_built_in_code() {
    let mut rules = ReadRules::new(Source::Position, source("header:kind"));
    rules.aggregate_version =
        Some(Sources::new([source("header:v"), source("pointer:/v")]).unwrap());
    assert!(Reader::new(rules, 4096).is_ok());
    assert!(Sources::new([]).is_err());
    assert!(Sources::new(vec![Source::Key; 9]).is_err());
}
