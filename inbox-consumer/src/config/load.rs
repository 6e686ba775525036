//! Reading a configuration.

use std::path::Path;

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
        TABLE.load(path, env, overrides, Self::validate)
    }
}
