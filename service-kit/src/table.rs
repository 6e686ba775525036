//! The table of a configuration's keys, as reading, checking and documenting it need it.

use std::fmt::Write as _;

use toml::{Table, Value};

use crate::{Key, Kind, Need, Problem};

/// All keys of a configuration, and how it is called.
#[derive(Clone, Copy, Debug)]
pub struct KeyTable {
    /// Every key, in the order of the documentation.
    pub keys: &'static [Key],
    /// The name of each section, and whether it occurs any number of times: `[[section]]`.
    pub sections: &'static [(&'static str, bool)],
    /// What variables of the environment begin with: `INBOX_`.
    pub env: &'static str,
    /// The page that lists all keys, as `docs_url` takes it.
    pub page: &'static str,
    /// The name that the program's own lines have in the log.
    pub target: &'static str,
    /// The port of metrics and health, where `http.listen` names none.
    pub port: u16,
}

impl KeyTable {
    /// The key of a path.
    pub fn find(&self, path: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.path == path)
    }

    /// The table of settings that a path leads into, and the setting.
    pub(crate) fn setting<'p>(&self, path: &'p str) -> Option<(&'static Key, &'p str)> {
        let tables = self.keys.iter().filter(|key| key.kind == Kind::Settings);
        let mut settings = tables.filter_map(|key| {
            let setting = path.strip_prefix(key.path)?.strip_prefix('.')?;
            Some((key, setting))
        });
        settings.next()
    }

    /// The list of tables that a path leads into: a section, or a key of one.
    pub(crate) fn list_of(&self, path: &str) -> Option<&'static str> {
        let sections =
            self.sections.iter().filter(|(_, repeated)| *repeated).map(|(name, _)| *name);
        let keys = self.keys.iter().filter(|key| key.kind == Kind::Tables).map(|key| key.path);
        let mut lists = sections.chain(keys);
        lists.find(|list| is_below(path, list))
    }

    /// The variable of a key.
    pub(crate) fn variable(&self, path: &str) -> String {
        format!("{}{}", self.env, path.replace('.', "__")).to_ascii_uppercase()
    }

    /// Whether there is a section of that name.
    pub fn is_section(&self, name: &str) -> bool {
        self.sections.iter().any(|(section, _)| *section == name)
    }

    /// The section of that name, if it occurs any number of times.
    pub fn repeated(&self, section: &str) -> Option<&'static str> {
        self.sections
            .iter()
            .find(|(name, repeated)| *repeated && *name == section)
            .map(|(name, _)| *name)
    }

    /// Whether a section occurs any number of times.
    pub fn repeats(&self, section: &str) -> bool {
        self.repeated(section).is_some()
    }

    /// The keys of a table with their values; a table that is known to hold keys is gone through.
    pub fn leaves(&self, path: &str, table: Table) -> Vec<(String, Value)> {
        let below = |(name, value): (String, Value)| {
            let path = format!("{path}.{name}");
            match value {
                Value::Table(table) if self.keys.iter().any(|key| is_below(key.path, &path)) => {
                    self.leaves(&path, table)
                }
                value => vec![(path, value)],
            }
        };
        table.into_iter().flat_map(below).collect()
    }

    /// What is missing or out of bounds, in values that were set without reading a file.
    pub fn problems(&self, values: &Table) -> Vec<Problem> {
        let mut found = Vec::new();
        for key in self.keys.iter().filter(|key| !self.repeats(key.section())) {
            let value = key.of(values);
            let empty = value.is_none_or(is_empty);
            match value {
                _ if empty && key.need == Need::Always => found.push(self.missing(key)),
                Some(value) if !empty || key.name() == "level" => {
                    if let Err(complaint) = key.kind.read(value, false) {
                        let text = format!("`{}`: {complaint}", key.path);
                        found.push(Problem::fatal(&[key.path], text));
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn missing(&self, key: &Key) -> Problem {
        let (section, name) = (key.section(), key.name());
        let variable = self.variable(key.path);
        Problem::fatal(
            &[key.path],
            format!(
                "`{}` is missing: set `{name}` in [{section}] of the configuration file, or \
                 {variable} in the environment",
                key.path
            ),
        )
    }

    /// What a key does, with the program's own words in it.
    pub(crate) fn doc_of(&self, key: &Key) -> String {
        key.doc.replace("{target}", self.target).replace("{port}", &self.port.to_string())
    }

    /// The tables of the documentation, one for each section; `repeated` is said of those that occur any
    /// number of times.
    pub fn reference(&self, repeated: &str) -> String {
        let mut page = String::new();
        let mut section = "";
        for key in self.keys {
            if key.section() != section {
                section = key.section();
                let _ = write!(page, "\n## [{section}]\n\n");
                page.push_str(if self.repeats(section) { repeated } else { "" });
                page.push_str("| key | holds | default | |\n|---|---|---|---|\n");
            }
            let default = match key.default {
                "" if key.need == Need::Always => "required".to_owned(),
                "" => String::new(),
                text if is_described(text) => text.to_owned(),
                text => format!("`{text}`"),
            };
            let doc = self.doc_of(key);
            let _ = writeln!(page, "| `{}` | {} | {default} | {doc} |", key.name(), key.kind);
        }
        page
    }
}

/// Whether a default is told in words, not as a value.
pub fn is_described(default: &str) -> bool {
    default.starts_with('`')
}

/// Whether `path` is a key of the table `above`.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// A name of letters, digits, `.`, `_` and `-`, as Kafka takes them.
pub fn is_name(name: &str, length_max: usize) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= length_max && name.chars().all(allowed)
}

/// Whether a topic of Kafka can have this name.
///
/// # Errors
/// The end of a sentence about the name.
pub fn topic_name(name: &str) -> Result<(), String> {
    if is_name(name, 249) && name != "." && name != ".." {
        return Ok(());
    }
    Err("is not a valid topic name: letters, digits, `.`, `_` and `-`, at most 249".into())
}

/// A plain name of SQL: lower-case letters, digits and `_`, not beginning with a digit, at most 63.
pub fn is_identifier(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (1..=63).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}
