//! Bytes as people write them: `4194304`, `"4MiB"`, `"512KiB"`.

use std::fmt;

use serde::{Deserializer, de};

const UNITS: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Reads a size; `None` when it is none.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim();
    if unit.is_empty() {
        return Some(number);
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*factor)
}

/// The size as the documentation writes it.
pub fn text(bytes: u64) -> String {
    let binary =
        UNITS.iter().take(3).find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    match binary {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes, as a number or as text with a unit such as \"4MiB\"")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<usize, E> {
        usize::try_from(bytes).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(bytes), &self))
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<usize, E> {
        usize::try_from(bytes).map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<usize, E> {
        parse(text)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Reads one for serde.
pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<usize, D::Error> {
    input.deserialize_any(Visitor)
}
