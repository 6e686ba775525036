//! One row of the table of keys.

use super::Kind;

/// One key of the configuration.
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
    pub(super) fn of<'v>(&self, all: &'v toml::Table) -> Option<&'v toml::Value> {
        let (section, rest) = self.path.split_once('.')?;
        rest.split('.').try_fold(all.get(section)?, |value, name| value.get(name))
    }

    /// Whether there is no consumer, or no section of a repeated one, without it.
    pub fn required(&self) -> bool {
        matches!(
            self.path,
            "consumer.name"
                | "kafka.bootstrap"
                | "kafka.topics"
                | "database.url"
                | "handlers.event_type"
                | "handlers.sql"
        )
    }

    /// Whether its section occurs any number of times: `[[section]]`.
    pub fn repeated(&self) -> bool {
        self.section() == "handlers"
    }
}
