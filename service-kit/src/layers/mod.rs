//! File, environment and flags laid over each other, each value with where it came from.
//!
//! One story: its files know each other.

mod advice;
mod lines;
mod lists;
mod secrets;
mod variables;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use crate::{ConfigError, Key, KeyTable, Kind, Problem};
use lines::{lines, syntax};
use secrets::{has_secret, seen_by_others};

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Origin {
    /// A file, and the line in it.
    File {
        /// Its path, as it was given.
        path: PathBuf,
        /// The line, from 1, when it is known.
        line: Option<usize>,
    },
    /// An environment variable.
    Env(String),
    /// The flag `--set`, or a program that passes [`crate::Overrides`].
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: Some(line) } => write!(f, "{}, line {line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "the environment variable {name}"),
            Self::Flag => f.write_str("--set"),
        }
    }
}

impl Origin {
    /// Whether the source knows only text, so that numbers and lists are written in it.
    fn loose(&self) -> bool {
        !matches!(self, Self::File { .. })
    }
}

/// Where a value came from: its layer, and of a secret the file that the layer names.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    origin: Origin,
    file: Option<PathBuf>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}, named by {}", file.display(), self.origin),
            None => self.origin.fmt(f),
        }
    }
}

/// What has been laid down so far. A later value takes the place of an earlier one.
#[derive(Debug)]
pub(crate) struct Layers {
    table: KeyTable,
    values: BTreeMap<&'static str, Value>,
    /// The sections that occur any number of times, each with its tables in their order.
    repeated: BTreeMap<&'static str, Vec<Table>>,
    /// Tables of settings, each with names of its own.
    settings: BTreeMap<&'static str, Table>,
    /// Where values came from, by their paths.
    sources: BTreeMap<String, Source>,
    complaints: Vec<String>,
    /// Where secrets came from, if others may have seen them there.
    doubts: BTreeMap<&'static str, Problem>,
}

impl Layers {
    /// Nothing yet.
    pub(crate) fn new(table: KeyTable) -> Self {
        Self {
            table,
            values: BTreeMap::new(),
            repeated: BTreeMap::new(),
            settings: BTreeMap::new(),
            sources: BTreeMap::new(),
            complaints: Vec::new(),
            doubts: BTreeMap::new(),
        }
    }

    /// Lays a TOML text down. `path` is for messages.
    pub(crate) fn file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let table: Table = toml::from_str(text).map_err(|error| syntax(path, text, &error))?;
        let lines = lines(text);
        for (section, values) in table {
            let origin =
                |key: &str| Origin::File { path: path.to_owned(), line: lines.get(key).copied() };
            match values {
                Value::Array(tables) if self.table.repeats(&section) => {
                    self.repeat(&section, tables, origin);
                }
                Value::Table(values)
                    if self.table.is_section(&section) && !self.table.repeats(&section) =>
                {
                    for (key, value) in self.table.leaves(&section, values) {
                        self.put(&key, value, &origin(&key));
                    }
                }
                _ => self.unknown_section(&section, &origin(&section)),
            }
        }
        Ok(())
    }

    /// Lays one flag down.
    pub(crate) fn flag(&mut self, key: &str, value: &str) {
        self.put(key, Value::String(value.to_owned()), &Origin::Flag);
    }

    fn put(&mut self, path: &str, value: Value, origin: &Origin) {
        if let Some((key, setting)) = self.table.setting(path) {
            return self.put_setting(key, setting, value, origin);
        }
        if let Some(key) = self.table.find(path).filter(|key| !self.table.repeats(key.section())) {
            return self.put_key(key, &value, Source { origin: origin.clone(), file: None });
        }
        if let Some(list) = self.table.list_of(path) {
            return self.put_element(list, path, value, origin);
        }
        let secret = path
            .strip_suffix("_file")
            .and_then(|path| self.table.find(path))
            .filter(|key| key.kind == Kind::Secret);
        match secret {
            Some(key) => self.put_secret_file(key, path, &value, origin),
            None => self.complaints.push(self.unknown_key(path, origin)),
        }
    }

    fn put_key(&mut self, key: &Key, value: &Value, source: Source) {
        let origin = &source.origin;
        match key.kind.read(value, origin.loose() || source.file.is_some()) {
            Ok(Value::Table(settings)) if key.kind == Kind::Settings => {
                for (name, value) in settings {
                    self.put_setting(key, &name, value, origin);
                }
            }
            Ok(value) => {
                // Whatever an earlier layer said of it.
                self.doubts.remove(key.path);
                if key.kind == Kind::Secret {
                    self.set_twice(key, &source);
                    if value.as_str().is_some_and(has_secret) {
                        let doubt = seen_by_others(key, &source);
                        self.doubts.extend(doubt.map(|doubt| (key.path, doubt)));
                    }
                }
                self.values.insert(key.path, value);
                self.sources.insert(key.path.to_owned(), source);
            }
            Err(complaint) => {
                let place = source.file.as_deref().map(|file| file.display().to_string());
                let place = place.unwrap_or_else(|| origin.to_string());
                self.complaints.push(format!("`{}` in {place}: {complaint}", key.path));
            }
        }
    }

    /// A table below a table of settings is a name with dots that was written without quotes.
    fn put_setting(&mut self, key: &Key, name: &str, value: Value, origin: &Origin) {
        match value {
            Value::Table(table) => {
                for (rest, value) in table {
                    self.put_setting(key, &format!("{name}.{rest}"), value, origin);
                }
            }
            Value::Array(_) | Value::Datetime(_) => self.complaints.push(format!(
                "`{}.{name}` in {origin}: expected a string, a number, true or false",
                key.path
            )),
            value => {
                let source = Source { origin: origin.clone(), file: None };
                self.sources.insert(format!("{}.{name}", key.path), source);
                self.settings.entry(key.path).or_default().insert(name.to_owned(), value);
            }
        }
    }

    /// Where each value came from, by its path.
    pub(crate) fn sources(&self) -> BTreeMap<String, String> {
        self.sources.iter().map(|(path, source)| (path.clone(), source.to_string())).collect()
    }

    /// Everything as one table, or every complaint.
    pub(crate) fn finish(mut self) -> Result<(Table, Vec<Problem>), ConfigError> {
        self.require_in_lists();
        if !self.complaints.is_empty() {
            return Err(ConfigError::Keys(self.complaints));
        }
        let doubts = self.doubts.into_values().collect();
        let mut all = Table::new();
        let settings = self.settings.into_iter().map(|(path, table)| (path, Value::Table(table)));
        for (path, value) in self.values.into_iter().chain(settings) {
            insert(&mut all, path, value);
        }
        for (section, tables) in self.repeated {
            let tables = tables.into_iter().map(Value::Table).collect();
            all.insert(section.to_owned(), Value::Array(tables));
        }
        Ok((all, doubts))
    }
}

/// Puts a value at its path.
pub fn insert(table: &mut Table, path: &str, value: Value) {
    let Some((first, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value);
        return;
    };
    let below = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(below) = below {
        insert(below, rest, value);
    }
}
