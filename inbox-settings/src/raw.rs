//! `[kafka.raw]`: further settings of librdkafka.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize, Serializer};

use crate::Problem;

/// Settings by librdkafka's names (`"fetch.wait.max.ms" = 100`). Values that look secret are not shown.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Raw(#[serde(deserialize_with = "scalars")] BTreeMap<String, String>);

impl Raw {
    /// Sets one.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// The value of one.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Why a list of refused names has one, and what to do instead; `None` when it may be set.
    pub fn refusal(refused: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
        refused.iter().find(|(refused, _)| *refused == name).map(|(_, why)| *why)
    }

    /// The part of the documentation about what is refused.
    pub fn reference(refused: &[(&str, &str)]) -> String {
        let rows = refused.iter().map(|(name, why)| format!("| `{name}` | {why} |\n"));
        format!(
            "\n## Refused in [kafka.raw]\n\n| setting | why, and what to do instead |\n|---|---|\n{}\
             | `debug` with `all`, `security` or `protocol` | it would print credentials; name other \
             contexts |\n",
            rows.collect::<String>()
        )
    }

    /// What is refused: a list of names, each with why and what to do instead.
    pub fn problems(&self, refused: &[(&str, &'static str)]) -> Vec<Problem> {
        let mut found = Vec::new();
        for (name, value) in self.iter() {
            if let Some(why) = Self::refusal(refused, name) {
                let text = format!("`kafka.raw` may not hold `{name}`: {why}");
                found.push(Problem::fatal(&["kafka.raw"], text));
            } else if name == "debug" && unsafe_debug(value) {
                found.push(Problem::fatal(
                    &["kafka.raw"],
                    "`kafka.raw` may not hold `debug` with `all`, `security` or `protocol`: it would \
                     print credentials; name other contexts, such as `cgrp,fetch`",
                ));
            }
        }
        found
    }

    fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(name, value)| (name, if looks_secret(name) { "***" } else { value }))
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown())
    }
}

/// Accepts numbers and booleans beside text, as TOML users write them.
fn scalars<'de, D: serde::Deserializer<'de>>(
    input: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let values = BTreeMap::<String, toml::Value>::deserialize(input)?;
    values
        .into_iter()
        .map(|(name, value)| match scalar_text(&value) {
            Some(text) => Ok((name, text)),
            None => Err(serde::de::Error::custom(format!("`{name}` is not text or a number"))),
        })
        .collect()
}

fn looks_secret(name: &str) -> bool {
    [
        "pass",
        "secret",
        "pem",
        "token",
        "oauthbearer.config",
        "key.data",
        "private",
        "jaas",
        "credential",
        "kinit",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// `debug` contexts that print credentials.
fn unsafe_debug(value: &str) -> bool {
    value.split(',').any(|context| matches!(context.trim(), "all" | "security" | "protocol"))
}

/// Text, number or boolean as text; nothing else is.
fn scalar_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}
