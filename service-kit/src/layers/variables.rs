//! Variables of the environment: which are ours, and which were meant to be.

use std::collections::BTreeMap;

use toml::Value;

use super::{Layers, Origin, advice::nearest};
use crate::{Key, Kind, docs_url};

/// How many letters of a variable without `__` may be wrong for it to be taken for a key.
const TYPOS_MAX: usize = 2;

impl Layers {
    /// Lays the variables down whose names are `<PREFIX><SECTION>__<KEY>`, and complains of those that were meant to
    /// be. Others are not ours.
    pub(crate) fn env(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        // Sorted, so that complaints come in the same order each time, and tables of a list by their numbers.
        let mut ours = BTreeMap::new();
        for (name, value) in variables {
            let Some(rest) = name.strip_prefix(self.table.env) else { continue };
            let Some((section, key)) = rest.split_once("__") else {
                let complaint = self.misspelt(&name, &rest.to_ascii_lowercase());
                self.complaints.extend(complaint);
                continue;
            };
            let path = format!("{section}.{}", key.replace("__", ".")).to_ascii_lowercase();
            // The names of settings have dots, and no variable has.
            let path = match self.table.setting(&path) {
                Some((key, setting)) => format!("{}.{}", key.path, setting.replace('_', ".")),
                None => path,
            };
            ours.insert(numbers_padded(&path), (path, value, name));
        }
        for (path, value, name) in ours.into_values() {
            self.put(&path, Value::String(value), &Origin::Env(name));
        }
    }

    /// What is said of a variable without `__`, if it looks like a key: `INBOX_DATABASE_URL`.
    fn misspelt(&self, name: &str, lower: &str) -> Option<String> {
        if lower == "config" || is_kubernetes_link(lower) {
            return None;
        }
        let table = self.table;
        let single = table.keys.iter().filter(|key| !table.repeats(key.section()));
        let paths = single.flat_map(|key| {
            let file = (key.kind == Kind::Secret).then(|| format!("{}_file", key.path));
            [Some(key.path.to_owned()), file].into_iter().flatten()
        });
        let near = |path: &String| strsim::damerau_levenshtein(lower, &path.replace('.', "_"));
        let meant = paths.clone().map(|path| (near(&path), path)).min();
        let meant = meant.filter(|(typos, _)| *typos <= TYPOS_MAX).map(|(_, path)| path);
        let meant = meant.or_else(|| {
            paths.clone().find(|path| path.split_once('.').is_some_and(|(_, key)| key == lower))
        });
        if let Some(path) = meant {
            let variable = table.variable(&path);
            return Some(format!(
                "unknown environment variable {name}; did you mean {variable}? Two underscores separate section and key"
            ));
        }
        let section = table.keys.iter().map(Key::section).find(|section| {
            lower.strip_prefix(section).is_some_and(|rest| rest.starts_with('_'))
        })?;
        let keys = table.keys.iter().filter(|key| key.section() == section).map(Key::name);
        let key = nearest(&lower[section.len() + 1..], keys).unwrap_or("KEY");
        let variable = table.variable(&format!("{section}.{key}"));
        Some(format!(
            "unknown environment variable {name}; write variables of [{section}] as {variable}, \
             with two underscores between section and key; unset it, or see {}",
            docs_url(table.page)
        ))
    }
}

/// Whether Kubernetes sets it in every container, for a service that is called like a section of ours.
fn is_kubernetes_link(name: &str) -> bool {
    name.ends_with("_service_host")
        || name.contains("_service_port")
        || name.ends_with("_port")
        || name.contains("_port_")
        || name.starts_with("port_")
}

/// A path by which numbers sort as numbers.
fn numbers_padded(path: &str) -> String {
    let padded = |part: &str| match part.parse::<u32>() {
        Ok(number) => format!("{number:010}"),
        Err(_) => part.to_owned(),
    };
    path.split('.').map(padded).collect::<Vec<_>>().join(".")
}
