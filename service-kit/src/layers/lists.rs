//! Sections and keys that are lists of tables: written in the file, or table by table in the environment and in flags.

use toml::{Table, Value};

use super::{Layers, Origin, Source, insert};
use crate::{Key, Kind, Need};

impl Layers {
    /// Adds the tables that a file has of a section.
    pub(super) fn repeat(
        &mut self,
        section: &str,
        tables: Vec<Value>,
        origin: impl Fn(&str) -> Origin,
    ) {
        let Some(section) = self.table.repeated(section) else { return };
        for (at, table) in tables.into_iter().enumerate() {
            let Value::Table(table) = table else {
                self.complaints.push(format!(
                    "`{section}` in {} is a list of tables: write [[{section}]] and its keys below",
                    origin(section)
                ));
                continue;
            };
            let place = format!("{section}.{at}");
            self.record_source(&place, &origin(&place));
            let mut read = Table::new();
            for (name, value) in table {
                let place = format!("{place}.{name}");
                let origin = origin(&place);
                let path = format!("{section}.{name}");
                // Of a wrong form, it is not missing.
                self.record_source(&place, &origin);
                match self.table.find(&path).map(|key| key.kind.read(&value, false)) {
                    Some(Ok(value)) => _ = read.insert(name, value),
                    Some(Err(complaint)) => {
                        self.complaints.push(format!("`{path}` in {origin}: {complaint}"));
                    }
                    None => self.complaints.push(self.unknown_key(&path, &origin)),
                }
            }
            self.repeated.entry(section).or_default().push(read);
        }
    }

    /// Sets `LIST.NUMBER.KEY`: a key of a table that an earlier layer has, or of the next one.
    pub(super) fn put_element(
        &mut self,
        list: &'static str,
        path: &str,
        value: Value,
        origin: &Origin,
    ) {
        let rest = path.get(list.len() + 1..).unwrap_or_default();
        let numbered =
            rest.split_once('.').and_then(|(at, name)| Some((at.parse::<usize>().ok()?, name)));
        let Some((at, name)) = numbered else {
            return self.complaints.push(format!(
                "`{path}` in {origin}: `{list}` is a list of tables; number them from 0, such as `{list}.0.KEY`"
            ));
        };
        let value = match self.element_value(list, name, value, origin) {
            Ok(value) => value,
            Err(complaint) => return self.complaints.push(complaint),
        };
        let count = self.len_of(list);
        let Some(table) = self.element(list, at) else {
            return self.complaints.push(format!(
                "`{path}` in {origin}: `{list}` has {count} tables before it; number them without \
                 gaps: the next one is `{list}.{count}`"
            ));
        };
        // Names of Debezium's settings have dots of their own.
        match name.strip_prefix("debezium.") {
            Some(setting) => {
                let settings = table.entry("debezium").or_insert_with(|| Table::new().into());
                if let Value::Table(settings) = settings {
                    settings.insert(setting.replace('_', "."), value);
                }
            }
            None => insert(table, name, value),
        }
        if at == count {
            self.record_source(&format!("{list}.{at}"), origin);
        }
        self.record_source(path, origin);
    }

    /// The value in the form of its key. What is in a table of no section its own type reads.
    fn element_value(
        &self,
        list: &str,
        name: &str,
        value: Value,
        origin: &Origin,
    ) -> Result<Value, String> {
        if !self.table.repeats(list) {
            return Ok(value);
        }
        let path = format!("{list}.{name}");
        if let Some(key) = self.table.find(&path) {
            let read = key.kind.read(&value, true);
            return read.map_err(|complaint| format!("`{path}` in {origin}: {complaint}"));
        }
        let columns = |key: &&Key| {
            key.kind == Kind::Columns
                && path.strip_prefix(key.path).is_some_and(|rest| rest.starts_with('.'))
        };
        match self.table.keys.iter().find(columns) {
            Some(_) => Ok(value),
            None => Err(self.unknown_key(&path, origin)),
        }
    }

    fn len_of(&self, list: &str) -> usize {
        match self.repeated.get(list) {
            Some(tables) => tables.len(),
            None => self.values.get(list).and_then(Value::as_array).map_or(0, Vec::len),
        }
    }

    /// The table of that number, if it is there or the next one.
    fn element(&mut self, list: &'static str, at: usize) -> Option<&mut Table> {
        if self.table.repeats(list) {
            let tables = self.repeated.entry(list).or_default();
            if at == tables.len() {
                tables.push(Table::new());
            }
            return tables.get_mut(at);
        }
        let tables = self.values.entry(list).or_insert_with(|| Value::Array(Vec::new()));
        let tables = tables.as_array_mut()?;
        if at == tables.len() {
            tables.push(Value::Table(Table::new()));
        }
        tables.get_mut(at)?.as_table_mut()
    }

    fn record_source(&mut self, path: &str, origin: &Origin) {
        let source = Source { origin: origin.clone(), file: None };
        self.sources.insert(path.to_owned(), source);
    }

    /// Complains of what the tables of repeated sections lack.
    pub(super) fn require_in_lists(&mut self) {
        let required = |section: &'static str| {
            let own = move |key: &&Key| key.section() == section && key.need == Need::Always;
            self.table.keys.iter().filter(own).map(Key::name)
        };
        let mut missing = Vec::new();
        for (section, tables) in &self.repeated {
            for at in 0..tables.len() {
                let path = format!("{section}.{at}");
                let is_set = |name: &str| self.sources.contains_key(&format!("{path}.{name}"));
                for name in required(section).filter(|name| !is_set(name)) {
                    let place = self.sources.get(&path);
                    let place = place.map_or_else(String::new, |source| format!(" of {source}"));
                    missing.push(format!("`{name}` is missing in the [[{section}]]{place}"));
                }
            }
        }
        self.complaints.extend(missing);
    }
}
