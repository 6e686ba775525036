//! One key of a configuration, and words to write a table of them with.

use std::time::Duration;

use crate::Kind;

/// One key of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// `section.key`.
    pub path: &'static str,
    /// What it holds: form, unit and bounds.
    pub kind: Kind,
    /// Its default; empty when it has none.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

impl Key {
    /// Its section.
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(section, _)| section)
    }

    /// Its name within the section.
    pub fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }

    /// Its value in a whole configuration.
    pub fn of<'v>(&self, all: &'v toml::Table) -> Option<&'v toml::Value> {
        let (section, rest) = self.path.split_once('.')?;
        rest.split('.').try_fold(all.get(section)?, |value, name| value.get(name))
    }
}

/// A key: path, kind, default, what it does.
pub const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

/// A whole number within bounds.
pub const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

/// Bytes within bounds.
pub const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

/// A duration within bounds, in milliseconds.
pub const fn millis(min: u64, max: u64) -> Kind {
    Kind::Duration { min: Duration::from_millis(min), max: Duration::from_millis(max) }
}

/// In milliseconds.
pub const SECOND: u64 = 1_000;
/// In milliseconds.
pub const MINUTE: u64 = 60 * SECOND;
/// In milliseconds.
pub const HOUR: u64 = 60 * MINUTE;
/// In milliseconds.
pub const DAY: u64 = 24 * HOUR;
/// In bytes.
pub const KIB: u64 = 1 << 10;
/// In bytes.
pub const MIB: u64 = 1 << 20;
/// In bytes.
pub const GIB: u64 = 1 << 30;
