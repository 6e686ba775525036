//! Rules: what a configuration may say.

use outbox_core::{ReadRules, Reader, RulesError, Source, Sources};

use crate::source;

fn refused(rules: &str) -> String {
    let rules: ReadRules = serde_json::from_str(rules).unwrap();
    Reader::new(&rules).unwrap_err().to_string()
}

fn unreadable(rules: &str) -> String {
    serde_json::from_str::<ReadRules>(rules).unwrap_err().to_string()
}

#[test]
fn rules_survive_being_written() {
    for text in [
        r#"{"preset":"own","event_bytes_max":1048576}"#,
        r#"{"preset":"custom","id":["header:a","position"],"type":"value:b:c","aggregate":"pointer:/x~1y/~0/0","event_bytes_max":2048}"#,
    ] {
        let rules: ReadRules = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&rules).unwrap(), text);
        Reader::new(&rules).unwrap();
    }
    assert_eq!(serde_json::from_str::<ReadRules>("{}").unwrap(), ReadRules::own());
}

#[test]
fn a_typo_is_told() {
    assert!(unreadable(r#"{"idd": "key"}"#).starts_with("unknown field `idd`, expected one of"));
    assert!(unreadable(r#"{"preset": "mine"}"#).contains("unknown variant `mine`"));
    assert!(unreadable(r#"{"id": 5}"#).contains("expected a place such as `header:NAME`"));
    assert!(unreadable(r#"{"id": []}"#).contains("a list of 0 places"));
    for wrong in ["head:x", "header", "value:", "keys", "", "key:", "topic:x", "pointer"] {
        let sentence = unreadable(&format!(r#"{{"id": "{wrong}"}}"#));
        assert!(sentence.contains(&format!("`{wrong}` names no place")), "{sentence}");
    }
    for wrong in
        ["pointer:x", "pointer:/a~2", "pointer:/~", &format!("pointer:{}", "/a".repeat(33))]
    {
        assert!(unreadable(&format!(r#"{{"id": "{wrong}"}}"#)).contains("is no JSON pointer"));
    }
    for wrong in ["header:", "header:a|b"] {
        assert!(unreadable(&format!(r#"{{"id": "{wrong}"}}"#)).contains("names no header"));
    }
}

/// H-class configuration mistakes: each is refused with what to change.
#[test]
fn contradictions_are_refused() {
    assert_eq!(
        refused(r#"{"preset": "custom", "id": "key", "type": "value:T"}"#),
        "`preset = \"custom\"` needs `aggregate`: say where the aggregate id is"
    );
    for constant in ["topic", "value:x"] {
        let rules = format!(r#"{{"id": ["header:x", "{constant}"]}}"#);
        assert!(refused(&rules).starts_with("`id` cannot be a constant"));
    }
    for misplaced in [r#"{"type": "position"}"#, r#"{"id": ["position", "key"]}"#] {
        assert!(refused(misplaced).contains("only be the last place of `id`"));
    }
    for two_lanes in [r#"["key", "key:hex"]"#, r#"["key", "pointer:/x"]"#] {
        let sentence = refused(&format!(r#"{{"aggregate": {two_lanes}}}"#));
        assert!(sentence.contains("could then be in two lanes"), "{sentence}");
    }
    assert_eq!(
        refused(r#"{"version": "value:one"}"#),
        "the constant in `version` is not a whole number within range"
    );
    assert_eq!(
        refused(r#"{"event_bytes_max": 20000000}"#),
        "`event_bytes_max` is 20000000; it has to be between 1024 and 16777216"
    );
}

#[test]
fn rules_can_be_built_in_code() {
    let mut rules = ReadRules::custom(Source::Position, source("header:kind"), Source::Key);
    rules.event_bytes_max = 4096;
    rules.version = Some(Sources::new([source("header:v"), source("pointer:/v")]).unwrap());
    assert_eq!(Reader::new(&rules).unwrap().event_bytes_max(), 4096);
    rules.event_bytes_max = 0;
    assert!(matches!(Reader::new(&rules), Err(RulesError::EventBytesMax { bytes: 0, .. })));
    assert!(Sources::new([]).is_err());
    assert!(Sources::new(vec![Source::Key; 9]).is_err());
}
