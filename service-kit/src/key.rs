//! One key of a configuration.

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
    /// Whether it has to be set.
    pub need: Need,
    /// What it does; `{target}` is the name of the program's own lines in the log.
    pub doc: &'static str,
}

/// Whether a key has to be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// It need not be there.
    Never,
    /// There is no configuration, or no section of a repeated one, without it.
    Always,
}

impl Key {
    /// No key, where an array has to begin with something.
    pub(crate) const NONE: Self =
        Self { path: "", kind: Kind::Text, default: "", need: Need::Never, doc: "" };

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
