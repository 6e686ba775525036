//! `[kafka.raw]`: further settings of librdkafka.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    Problem,
    properties::{self, GROUPS, Group, Program, Standing},
};

/// The contexts of `debug` that print neither credentials nor settings nor what records hold.
const DEBUG_FREE: &[&str] = &[
    "admin",
    "assignor",
    "broker",
    "cgrp",
    "consumer",
    "eos",
    "feature",
    "fetch",
    "generic",
    "metadata",
    "msg",
    "queue",
    "telemetry",
    "topic",
];

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

    /// What may be passed on to the client of this program.
    pub fn passed(&self, program: Program) -> impl Iterator<Item = (String, String)> {
        let passed =
            self.iter().filter(move |(name, value)| refusal(program, name, value).is_none());
        passed.map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    /// What is refused, each with why and what to do instead.
    pub fn problems(&self, program: Program) -> Vec<Problem> {
        let told = self.iter().filter_map(|(name, value)| {
            let (what, why) = refusal(program, name, value)?;
            let text = format!("`kafka.raw` may not contain {what}: {why}");
            Some(Problem::fatal(&["kafka.raw"], text))
        });
        told.collect()
    }

    /// The part of the documentation about what may be set and what is refused.
    pub fn reference(program: Program) -> String {
        let listed =
            |group: &Group| group.names().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let (mut free, mut refused) = (Vec::new(), String::new());
        for group in GROUPS {
            match group.standing(program) {
                Standing::Free => free.extend(listed(group)),
                Standing::Refused(why) => {
                    _ = writeln!(refused, "| {} | {why} |", listed(group).join(", "));
                }
            }
        }
        free.sort();
        format!(
            "\n## Settings in [kafka.raw]\n\nlibrdkafka settings by their own names, explained in its \
             [list](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md). Allowed settings: \
             {}. `debug` is a list of {}, separated by commas: the other contexts print credentials or \
             settings. `ssl.cipher.suites` must not contain `@` or `NULL`. Unlisted settings are refused, and \
             so are these:\n\n| setting | reason and alternative |\n|---|---|\n{refused}",
            free.join(", "),
            DEBUG_FREE.iter().map(|context| format!("`{context}`")).collect::<Vec<_>>().join(", ")
        )
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
            None => Err(serde::de::Error::custom(format!("`{name}` is not a string or a number"))),
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

/// What may not be set, and why: the name, or the value that this one may not have.
fn refusal(program: Program, name: &str, value: &str) -> Option<(String, String)> {
    match properties::standing(program, name) {
        Some(Standing::Free) => refused_value(name, value),
        Some(Standing::Refused(why)) => Some((format!("`{name}`"), why.to_owned())),
        None => Some((
            format!("`{name}`"),
            "this build's librdkafka has no such setting; correct the name, or remove it"
                .to_owned(),
        )),
    }
}

fn refused_value(name: &str, value: &str) -> Option<(String, String)> {
    match name {
        "debug" => {
            let unknown = value.split(',').map(str::trim).find(|one| !DEBUG_FREE.contains(one))?;
            Some((
                format!("`debug` with {unknown:?}"),
                format!(
                    "contexts that are not known to be harmless could print credentials or \
                     settings; list those that you need of {}, separated by commas",
                    DEBUG_FREE.join(", ")
                ),
            ))
        }
        // `@SECLEVEL=0` lets ciphers in that encrypt nothing.
        "ssl.cipher.suites" if value.contains('@') || value.to_uppercase().contains("NULL") => {
            Some((
                "`ssl.cipher.suites` with `@` or `NULL`".to_owned(),
                "it would allow ciphers that protect nothing; name suites".to_owned(),
            ))
        }
        _ => None,
    }
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
