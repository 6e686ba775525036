//! Reading a configuration.

use std::path::Path;

use super::{Config, ConfigError, Overrides, Problem, sections::TABLE};

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
        TABLE.load(path, env, overrides, Self::follow, Self::validate)
    }

    /// Limits that nobody has set follow those that bound them, so that each of these can be changed alone. What
    /// was noticed is kept.
    fn follow(&mut self, is_set: &dyn Fn(&str) -> bool, noticed: Vec<Problem>) {
        self.noticed = noticed;
        let (db, attempt) = (&mut self.database, self.retry.attempt_deadline);
        if !is_set("database.statement_timeout") {
            db.statement_timeout = db.statement_timeout.min(attempt * 2 / 3);
        }
        if !is_set("database.lock_timeout") {
            db.lock_timeout = db.lock_timeout.min(db.statement_timeout / 2);
        }
        let (limits, session) = (&mut self.limits, &mut self.kafka.session_timeout);
        if !is_set("kafka.session_timeout") {
            *session = (*session).max(limits.drain_deadline * 3);
        }
        if !is_set("database.idle_timeout") {
            db.idle_timeout = db.idle_timeout.min(*session).max(attempt * 4 / 3);
        }
        if !is_set("limits.drain_deadline") {
            limits.drain_deadline = limits.drain_deadline.min(*session / 3);
        }
        if !is_set("limits.close_deadline") {
            limits.close_deadline = limits.close_deadline.max(limits.drain_deadline);
        }
    }
}
