//! What a key may be declared as: its kind, its default out of text, its form in a file.

use std::{collections::BTreeMap, time::Duration};

use outbox_core::{DebeziumRouter, IdScope, RuleKeys};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Kind, Raw, Secret, Share, duration, size};

/// A type that a key may be declared as, by `section!`.
pub trait Setting: Sized {
    /// What it holds, where the declaration names no bounds.
    const KIND: Kind;
    /// Its default, where the declaration names none; empty when there is none.
    const DEFAULT: &'static str = "";
    /// The value that a declaration has as its default.
    fn of(default: &str) -> Self;
    /// Whether it is left out when a configuration is written.
    fn is_unset(&self) -> bool {
        false
    }
    /// Writes it.
    fn write<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error>;
    /// Reads it.
    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error>;
}

/// For `#[serde(with = "service_kit::setting")]`.
pub fn serialize<T: Setting, S: Serializer>(value: &T, output: S) -> Result<S::Ok, S::Error> {
    value.write(output)
}

/// For `#[serde(with = "service_kit::setting")]`.
pub fn deserialize<'de, T: Setting, D: Deserializer<'de>>(input: D) -> Result<T, D::Error> {
    T::read(input)
}

/// Types that are written and read as serde does by itself.
macro_rules! plain {
    ($($type:ty: $kind:expr, $default:literal, $of:expr;)+) => { $(
        impl Setting for $type {
            const KIND: Kind = $kind;
            const DEFAULT: &'static str = $default;
            fn of(default: &str) -> Self {
                let of: fn(&str) -> Self = $of;
                of(default)
            }
            fn write<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
                self.serialize(output)
            }
            fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                Self::deserialize(input)
            }
        }
    )+ };
}

plain! {
    String: Kind::Text, "", |text| text.into();
    Secret: Kind::Secret, "", |text| text.into();
    bool: Kind::Flag, "false", |text| text == "true";
    u16: Kind::Number { min: 0, max: u16::MAX as u64 }, "", |text| text.parse().unwrap_or_default();
    u32: Kind::Number { min: 0, max: u32::MAX as u64 }, "", |text| text.parse().unwrap_or_default();
    Vec<String>: Kind::List, "", |_| Self::new();
    BTreeMap<String, String>: Kind::Columns, "", |_| Self::new();
    Raw: Kind::Settings, "", |_| Self::default();
    IdScope: Kind::Choice(&["consumer", "topic"]), "consumer", |_| Self::default();
    // Its keys are declared one by one.
    RuleKeys: Kind::Settings, "", |_| Self::default();
    DebeziumRouter: Kind::Settings, "", |_| Self::default();
}

impl Setting for usize {
    const KIND: Kind = Kind::Bytes { min: 0, max: u64::MAX };
    fn of(default: &str) -> Self {
        size::parse(default).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
    }
    fn write<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.serialize(output)
    }
    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        size::deserialize(input)
    }
}

impl Setting for Share {
    const KIND: Kind = Kind::Share;
    fn of(default: &str) -> Self {
        Self::parse(default).unwrap_or(Self::ALL)
    }
    fn write<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_f64(self.get())
    }
    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("a share is a number from 0 to 1");
        Self::new(f64::deserialize(input)?).ok_or_else(wrong)
    }
}

impl Setting for Duration {
    const KIND: Kind = Kind::Duration { min: Self::ZERO, max: Self::MAX };
    fn of(default: &str) -> Self {
        duration::parse(default).unwrap_or_default()
    }
    fn write<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        duration::serialize(self, output)
    }
    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        duration::deserialize(input)
    }
}

/// A key that need not be there.
impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;
    fn of(default: &str) -> Self {
        (!default.is_empty()).then(|| T::of(default))
    }
    fn is_unset(&self) -> bool {
        self.is_none()
    }
    fn write<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.write(output),
            None => output.serialize_none(),
        }
    }
    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        T::read(input).map(Some)
    }
}
