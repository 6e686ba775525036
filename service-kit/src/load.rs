//! Reading a configuration: file, environment, flags.

use std::{collections::BTreeMap, path::Path};

use serde::de::DeserializeOwned;
use toml::Table;

use crate::{ConfigError, KeyTable, Problem, layers::Layers};

/// Values that go over file and environment: `section.key` and its value as text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(String, String)>);

impl std::fmt::Debug for Overrides {
    /// Only the keys: a value may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

impl Overrides {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; a later one of the same key goes over an earlier.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// Adds `section.key=value`.
    pub fn assignment(self, text: &str) -> Result<Self, ConfigError> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok(self.with(key.trim(), value)),
            _ => Err(ConfigError::Keys(vec![
                "--set takes section.key=value, such as --set kafka.bootstrap=localhost:9092"
                    .into(),
            ])),
        }
    }
}

/// A problem with one key, with where that key was set.
fn placed(problem: Problem, sources: &BTreeMap<String, String>) -> Problem {
    let [key] = problem.keys[..] else { return problem };
    let (Some(source), name) = (sources.get(key), format!("`{key}`")) else { return problem };
    match problem.text.strip_prefix(&name) {
        Some(rest) => Problem { text: format!("{name} ({source}){rest}"), ..problem },
        None => problem,
    }
}

impl KeyTable {
    /// Reads `path` (nothing, if `None`), lays `env` over it, and `overrides` over that.
    ///
    /// # Errors
    /// Every unknown key and every value of the wrong form at once, one sentence each.
    pub fn read(
        self,
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
    ) -> Result<Table, ConfigError> {
        self.layers(path, env, overrides)?.finish().map(|(table, _)| table)
    }

    /// Where each value comes from, by its path, as people read it.
    ///
    /// # Errors
    /// When the file cannot be read, or is not TOML.
    pub fn sources(
        self,
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
    ) -> Result<BTreeMap<String, String>, ConfigError> {
        Ok(self.layers(path, env, overrides)?.sources())
    }

    fn layers(
        self,
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
    ) -> Result<Layers, ConfigError> {
        let mut layers = Layers::new(self);
        if let Some(path) = path {
            layers.file(path, &self.text(path)?)?;
        }
        layers.env(env);
        for (key, value) in &overrides.0 {
            layers.flag(key, value);
        }
        Ok(layers)
    }

    /// Reads as [`KeyTable::read`] does, into a type; lets what is not set `follow` what is, with the doubts that
    /// reading has noticed, and refuses what does not go together.
    ///
    /// # Errors
    /// As for [`KeyTable::read`], or every fatal one of the problems that `validate` finds.
    pub fn load<C: DeserializeOwned>(
        self,
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
        follow: impl FnOnce(&mut C, &dyn Fn(&str) -> bool, Vec<Problem>),
        validate: impl FnOnce(&C) -> Vec<Problem>,
    ) -> Result<C, ConfigError> {
        let layers = self.layers(path, env, overrides)?;
        let sources = layers.sources();
        let (table, noticed) = layers.finish()?;
        let mut config = C::deserialize(table.clone())
            .map_err(|error| ConfigError::Keys(vec![error.message().to_owned()]))?;
        let is_set = |path: &str| {
            let (section, key) = path.split_once('.').unwrap_or((path, ""));
            table.get(section).is_some_and(|section| section.get(key).is_some())
        };
        follow(&mut config, &is_set, noticed);
        let fatal = validate(&config).into_iter().filter(|one| one.fatal);
        let fatal: Vec<_> = fatal.map(|problem| placed(problem, &sources)).collect();
        if fatal.is_empty() { Ok(config) } else { Err(ConfigError::Unsafe(fatal)) }
    }

    fn text(self, path: &Path) -> Result<String, ConfigError> {
        std::fs::read_to_string(path).map_err(|error| {
            ConfigError::Unreadable(format!(
                "cannot read the configuration file {}: {error}; name another one with --config \
                 or {}CONFIG",
                path.display(),
                self.env
            ))
        })
    }
}
