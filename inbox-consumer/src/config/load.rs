//! Reading a configuration.

use std::path::Path;

use serde::Deserialize;

use super::{Config, ConfigError, Overrides, keys::TABLE};

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
        let config = Self::deserialize(TABLE.read(path, env, overrides)?)
            .map_err(|error| ConfigError::Keys(vec![error.message().to_owned()]))?;
        let fatal: Vec<_> = config.validate().into_iter().filter(|one| one.fatal).collect();
        if fatal.is_empty() { Ok(config) } else { Err(ConfigError::Unsafe(fatal)) }
    }
}
