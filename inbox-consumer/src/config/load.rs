//! Reading a configuration.

use std::path::Path;

use serde::Deserialize;

use super::{Config, ConfigError, layers::Layers};

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

impl Config {
    /// Reads `path` (nothing, if `None`), lays `env` over it (names `INBOX_<SECTION>__<KEY>`; pass
    /// [`std::env::vars`]), and `overrides` over that; then refuses what does not go together.
    ///
    /// # Errors
    /// Every unknown key and every value of the wrong form at once, or every unsafe combination,
    /// one sentence each. Doubtful combinations are no error: see [`Config::validate`].
    pub fn load(
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let mut layers = Layers::default();
        if let Some(path) = path {
            layers.file(path, &text(path)?)?;
        }
        layers.env(env);
        for (key, value) in &overrides.0 {
            layers.flag(key, value);
        }
        let config = Self::deserialize(layers.finish()?)
            .map_err(|error| ConfigError::Keys(vec![error.message().to_owned()]))?;
        let fatal: Vec<_> = config.validate().into_iter().filter(|one| one.fatal).collect();
        if fatal.is_empty() { Ok(config) } else { Err(ConfigError::Unsafe(fatal)) }
    }
}

fn text(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        ConfigError::Unreadable(format!(
            "cannot read the configuration file {}: {error}; name another with --config or INBOX_CONFIG",
            path.display()
        ))
    })
}
