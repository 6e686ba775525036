//! The table of keys, the types and the document say the same.

use std::collections::BTreeSet;

use serde::Deserialize;

use service_kit::testing::{self, document};

use super::super::{sections::TABLE, *};

/// A value for each key of the table, so that every field of the types is written out.
fn everything() -> toml::Table {
    let all = toml::Table::try_from(Config::new("a", "b:1", ["c"], "sqlite:d")).unwrap();
    testing::filled(TABLE, all, |kind| match kind {
        Kind::Place => "header:x".into(),
        Kind::Settings | Kind::Columns => toml::Table::new().into(),
        Kind::Flag => true.into(),
        Kind::Tables => {
            let topic = toml::Table::from_iter(
                [("topic", "x"), ("format", "own")]
                    .map(|(key, word)| (key.to_owned(), word.into())),
            );
            vec![toml::Value::Table(topic)].into()
        }
        Kind::Duration { .. } => "90d".into(),
        Kind::Number { min, .. } => i64::try_from(min).unwrap().into(),
        Kind::Choice(words) => words[0].into(),
        _ => "x".into(),
    })
}

#[test]
fn every_key_of_the_types_is_in_the_table_and_none_else() {
    let config = Config::deserialize(everything()).unwrap();
    let written = testing::paths(TABLE, &toml::Table::try_from(&config).unwrap());
    let table: BTreeSet<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
    assert_eq!(written, table);
}

#[test]
fn the_types_refuse_keys_that_are_not_in_the_table() {
    for section in ["kafka", "database", "events", "http", "log", "traces"] {
        let mut all = everything();
        all[section].as_table_mut().unwrap().insert("botstrap".into(), "x".into());
        assert!(Config::deserialize(all).is_err(), "[{section}]");
    }
}

#[test]
fn defaults_of_the_table_are_the_defaults_of_the_types() {
    let defaults = toml::Table::try_from(Config::default()).unwrap();
    for (key, value, table) in testing::defaults(TABLE, &defaults) {
        assert_eq!(value, &table.unwrap(), "{key}");
    }
}

#[test]
fn the_document_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
    let wanted = reference::reference();
    let there = document(path, &wanted);
    assert!(there == wanted, "docs/configuration.md is old: run this test with UPDATE_DOCS=1");
}
