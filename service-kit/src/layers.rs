//! File, environment and flags laid over each other, each value with where it came from.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use toml::{Table, Value, de::DeTable};

use crate::{ConfigError, Key, KeyTable, Kind, Need, Problem, docs_url, files::doubt_of};

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
    /// The file of a secret.
    Secret(PathBuf),
    /// The flag `--set`, or whoever hands over [`crate::Overrides`].
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: Some(line) } => write!(f, "{}, line {line}", path.display()),
            Self::File { path, line: None } | Self::Secret(path) => {
                write!(f, "{}", path.display())
            }
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

/// What has been laid down so far. A later value takes the place of an earlier one.
#[derive(Debug)]
pub(crate) struct Layers {
    table: KeyTable,
    values: BTreeMap<&'static str, Value>,
    /// The sections that occur any number of times, each with its tables in their order.
    repeated: BTreeMap<&'static str, Vec<Value>>,
    /// Tables of settings, each with names of its own.
    settings: BTreeMap<&'static str, Table>,
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

    /// Lays the variables down whose names are `<PREFIX><SECTION>__<KEY>`; others are not ours.
    pub(crate) fn env(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let ours = variables.into_iter().filter_map(|(name, value)| {
            let (section, key) = name.strip_prefix(self.table.env)?.split_once("__")?;
            let (section, key) = (section.to_ascii_lowercase(), key.to_ascii_lowercase());
            let path = format!("{section}.{}", key.replace("__", "."));
            // The names of settings have dots, and no variable has.
            let path = match self.table.setting(&path) {
                Some((key, setting)) => format!("{}.{}", key.path, setting.replace('_', ".")),
                None => path,
            };
            Some((path, value, name))
        });
        // Sorted, so that complaints come in the same order each time.
        let ours: BTreeMap<String, (String, String)> =
            ours.map(|(key, value, name)| (key, (value, name))).collect();
        for (key, (value, name)) in ours {
            self.put(&key, Value::String(value), &Origin::Env(name));
        }
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
            return self.put_key(key, &value, origin);
        }
        if let Some(section) = path.split('.').next().and_then(|name| self.table.repeated(name)) {
            return self.complaints.push(format!(
                "`{path}` in {origin}: [[{section}]] occurs any number of times, so it is set in the \
                 configuration file alone; write it there"
            ));
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

    /// Lays the tables of a section down that occurs any number of times.
    fn repeat(&mut self, section: &str, tables: Vec<Value>, origin: impl Fn(&str) -> Origin) {
        let Some(section) = self.table.repeated(section) else { return };
        for (at, table) in tables.into_iter().enumerate() {
            let Value::Table(table) = table else {
                self.complaints.push(format!(
                    "`{section}` in {} is a list of tables: write [[{section}]] and its keys below",
                    origin(section)
                ));
                continue;
            };
            let keys = self.table.keys;
            let own = |key: &&Key| key.section() == section && key.need == Need::Always;
            for key in keys.iter().filter(own) {
                if !table.contains_key(key.name()) {
                    let name = key.name();
                    let origin = origin(&format!("{section}.{at}"));
                    self.complaints
                        .push(format!("`{name}` is missing in the [[{section}]] of {origin}"));
                }
            }
            let mut read = Table::new();
            for (name, value) in table {
                let origin = origin(&format!("{section}.{at}.{name}"));
                let path = format!("{section}.{name}");
                match self.table.find(&path).map(|key| key.kind.read(&value, false)) {
                    Some(Ok(value)) => _ = read.insert(name, value),
                    Some(Err(complaint)) => {
                        self.complaints.push(format!("`{path}` in {origin}: {complaint}"));
                    }
                    None => self.complaints.push(self.unknown_key(&path, &origin)),
                }
            }
            self.repeated.entry(section).or_default().push(Value::Table(read));
        }
    }

    fn put_key(&mut self, key: &Key, value: &Value, origin: &Origin) {
        match key.kind.read(value, origin.loose()) {
            Ok(Value::Table(settings)) if key.kind == Kind::Settings => {
                for (name, value) in settings {
                    self.put_setting(key, &name, value, origin);
                }
            }
            Ok(value) => {
                // Whatever an earlier layer said of it.
                self.doubts.remove(key.path);
                if key.kind == Kind::Secret && value.as_str().is_some_and(has_secret) {
                    self.doubts.extend(seen_by_others(key, origin).map(|doubt| (key.path, doubt)));
                }
                self.values.insert(key.path, value);
            }
            Err(complaint) => {
                self.complaints.push(format!("`{}` in {origin}: {complaint}", key.path));
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
                "`{}.{name}` in {origin}: expected text, a number, true or false",
                key.path
            )),
            value => {
                self.settings.entry(key.path).or_default().insert(name.to_owned(), value);
            }
        }
    }

    fn put_secret_file(&mut self, key: &Key, path: &str, value: &Value, origin: &Origin) {
        let Ok(Value::String(file)) = Kind::Text.read(value, true) else {
            return self.complaints.push(format!("`{path}` in {origin}: expected a file's name"));
        };
        match std::fs::read_to_string(&file) {
            Ok(text) if text.starts_with('\u{feff}') => self.complaints.push(format!(
                "`{path}` in {origin}: {file} begins with a byte order mark, which an editor has put there; save it as UTF-8 \
                 without one"
            )),
            Ok(text) => {
                let text = text.trim_end_matches(['\n', '\r']).to_owned();
                self.put_key(key, &Value::String(text), &Origin::Secret(file.into()));
            }
            Err(error) => self.complaints.push(format!(
                "`{path}` in {origin}: cannot read {file}: {error}; check the name and who may read it"
            )),
        }
    }

    fn unknown_section(&mut self, section: &str, origin: &Origin) {
        let complaint = if self.table.repeats(section) {
            format!(
                "`{section}` in {origin} is a list of tables: write [[{section}]] and its keys below"
            )
        } else if self.table.is_section(section) {
            format!("`{section}` in {origin} is a section: write [{section}] and its keys below")
        } else {
            let sections = self.table.keys.iter().map(Key::section);
            let advice = match nearest(section, sections) {
                Some(near) => format!("; did you mean [{near}]?"),
                None => self.advice_for_key(section),
            };
            format!("unknown section or key `{section}` in {origin}{advice}")
        };
        self.complaints.push(complaint);
    }

    fn unknown_key(&self, path: &str, origin: &Origin) -> String {
        let advice = match nearest(path, self.table.keys.iter().map(|key| key.path)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => self.advice_for_key(path.rsplit('.').next().unwrap_or(path)),
        };
        format!("unknown key `{path}` in {origin}{advice}")
    }

    /// A key of that name in another section, else where all keys are listed.
    fn advice_for_key(&self, name: &str) -> String {
        match self.table.keys.iter().find(|key| key.name() == name) {
            Some(key) => format!("; `{name}` belongs in [{}]", key.section()),
            None => format!(
                "; {} lists all keys, and settings of librdkafka belong in [kafka.raw]",
                docs_url(self.table.page)
            ),
        }
    }

    /// Everything as one table, or every complaint.
    pub(crate) fn finish(self) -> Result<(Table, Vec<Problem>), ConfigError> {
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
            all.insert(section.to_owned(), Value::Array(tables));
        }
        Ok((all, doubts))
    }
}

/// Whether a value holds what nobody may see: an address without a password holds nothing.
fn has_secret(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return !value.starts_with("sqlite:") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || value.contains("password=")
}

/// A doubt about a secret that others could read where it came from.
fn seen_by_others(key: &Key, origin: &Origin) -> Option<Problem> {
    let (path, keys) = (key.path, &[key.path]);
    match origin {
        Origin::Flag => Some(Problem::doubt(
            keys,
            format!(
                "`{path}` is set on the command line, which every user of this machine can read (ps); set \
                 `{path}_file` there instead, or the key in a file or in the environment"
            ),
        )),
        Origin::File { path: file, .. } | Origin::Secret(file) => {
            doubt_of(keys, &format!("`{path}`"), file)
        }
        Origin::Env(_) => None,
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

fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (wrong.rsplit('.').next().unwrap_or(wrong).len().div_ceil(3)).clamp(1, 3);
    known
        .map(|known| (strsim::damerau_levenshtein(wrong, known), known))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, known)| known)
}

/// Only the parser's message and the place: the line itself may hold a secret.
fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let place =
        error.span().map_or(String::new(), |span| format!(", line {}", line_at(text, span.start)));
    ConfigError::Syntax(format!("{}{place} is not TOML: {}", path.display(), error.message()))
}

fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

/// The line of each table and of each key.
fn lines(text: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    if let Ok(table) = DeTable::parse(text) {
        lines_below("", table.get_ref(), text, &mut lines);
    }
    lines
}

fn lines_below(above: &str, table: &DeTable<'_>, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (name, value) in table {
        let path = format!("{above}{}", name.get_ref());
        if let Some(below) = value.get_ref().as_table() {
            lines_below(&format!("{path}."), below, text, lines);
        }
        for (at, item) in value.get_ref().as_array().into_iter().flatten().enumerate() {
            if let Some(below) = item.get_ref().as_table() {
                lines_below(&format!("{path}.{at}."), below, text, lines);
                lines.insert(format!("{path}.{at}"), line_at(text, item.span().start));
            }
        }
        lines.insert(path, line_at(text, name.span().start));
    }
}
