//! Durations as people write them: `"30s"`, `"100ms"`, `"7d"`.

use std::{fmt, time::Duration};

use serde::{Deserializer, Serializer, de};

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with a unit, such as \"30s\", \"100ms\" or \"7d\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Reads one for serde.
pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    input.deserialize_str(Visitor)
}

/// Writes one for serde.
pub fn serialize<S: Serializer>(value: &Duration, output: S) -> Result<S::Ok, S::Error> {
    output.collect_str(&text(*value))
}

/// Reads a duration; `None` when it is none.
pub fn parse(text: &str) -> Option<Duration> {
    humantime::parse_duration(text.trim()).ok()
}

/// The duration as the documentation writes it.
pub fn text(value: Duration) -> String {
    // humantime writes years of 365.25 days and months of 30.44; nobody configures in those.
    let day = 24 * 60 * 60;
    if value.subsec_nanos() == 0 && value.as_secs() > 0 && value.as_secs().is_multiple_of(day) {
        return format!("{}d", value.as_secs() / day);
    }
    humantime::format_duration(value).to_string()
}
