//! `[kafka.raw]`: further settings of librdkafka, and those that are refused there.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize, Serializer};

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
    ["password", "secret", "pem", "token", "oauthbearer.config", "key.data"]
        .iter()
        .any(|part| name.contains(part))
}

const OFFSETS: &str = "the runtime commits the watermark that the database holds, and nothing else \
    may commit or store offsets; remove it";
const SECRET: &str = "it would be kept with the plain settings; use the key of the same name in \
    [kafka], dots written as underscores";

/// What `[kafka.raw]` may not hold: the name, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("enable.auto.commit", OFFSETS),
    ("auto.commit.enable", OFFSETS),
    ("auto.commit.interval.ms", OFFSETS),
    ("enable.auto.offset.store", OFFSETS),
    ("offset.store.method", OFFSETS),
    ("offset.store.path", OFFSETS),
    ("offset.store.sync.interval.ms", OFFSETS),
    (
        "auto.offset.reset",
        "where a consumer without history begins is `kafka.start`, and a lost offset stops the \
         partition instead of skipping records; set `kafka.start`",
    ),
    (
        "isolation.level",
        "records of aborted transactions must never reach a handler, so it is read_committed; remove it",
    ),
    (
        "partitioner",
        "a consumer does not choose partitions; set it where events are produced \
         (murmur2_random is what Java clients do)",
    ),
    (
        "partition.assignment.strategy",
        "letting partitions go one by one needs cooperative-sticky; choose between the group \
         protocols with `kafka.protocol`",
    ),
    ("group.id", "the group is `kafka.group`, which defaults to `consumer.name`; set that"),
    ("group.instance.id", "static membership is `consumer.instance_id`; set that"),
    ("group.protocol", "the group protocol is `kafka.protocol`; set that"),
    ("bootstrap.servers", "the brokers are `kafka.bootstrap`; set that"),
    ("metadata.broker.list", "the brokers are `kafka.bootstrap`; set that"),
    ("session.timeout.ms", "it is `kafka.session_timeout`; set that"),
    ("heartbeat.interval.ms", "it follows from `kafka.session_timeout`; set that"),
    (
        "max.poll.interval.ms",
        "the runtime polls without waiting for handlers, so it is five minutes; remove it",
    ),
    ("security.protocol", "it is `kafka.security_protocol`; set that"),
    (
        "client.id",
        "the runtime makes it unique per process, which the assignors rely on; remove it",
    ),
    ("enable.partition.eof", "the runtime needs it to pass over missing offsets; remove it"),
    ("check.crcs", "a damaged record must not reach a handler, so it is on; remove it"),
    ("allow.auto.create.topics", "a typo in `kafka.topics` must not create a topic; remove it"),
    ("sasl.password", SECRET),
    ("ssl.key.pem", SECRET),
    ("ssl.key.password", SECRET),
    ("sasl.oauthbearer.config", SECRET),
    ("sasl.oauthbearer.client.secret", SECRET),
];

/// Why `[kafka.raw]` refuses a setting, and what to do instead; `None` when it may be set.
pub fn refused(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, why)| *why)
}

/// All refused settings, for the documentation.
pub(super) fn all_refused() -> &'static [(&'static str, &'static str)] {
    REFUSED
}

/// `debug` contexts that print credentials.
pub(super) fn unsafe_debug(value: &str) -> bool {
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
