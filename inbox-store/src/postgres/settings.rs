//! What a session needs: address, schema, names and limits. Made once, cheap to clone.

use std::{fmt, time::Duration};

use service_kit::{DatabaseTls, PostgresAddress};
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use crate::shared::SettingsError;

/// The settings of sessions on PostgreSQL. `Debug` shows address, database, user and schema, never
/// the password.
#[derive(Clone)]
pub struct PgSettings {
    pub(super) options: PgConnectOptions,
    pub(super) schema: Option<String>,
    pub(super) connect_timeout: Duration,
    pub(super) dead_client_after: Duration,
    pub(super) pooler: bool,
    /// Makes the functions that every session has for declared handlers.
    pub(super) functions: Option<std::sync::Arc<str>>,
}

impl PgSettings {
    /// Reads a URL `postgres://user:password@host:port/database?sslmode=…`; on another machine the server is
    /// verified. Defaults: the role's own search path, the application name `inbox`, 10 s to connect, dead
    /// clients are found after 30 s, 100 cached statements.
    ///
    /// # Errors
    ///
    /// When the URL is not one of PostgreSQL, or asks for less.
    pub fn new(url: &str) -> Result<Self, SettingsError> {
        Self::read(url, None)
    }

    /// The same, with the word of `database.tls`.
    pub(super) fn read(url: &str, tls: Option<DatabaseTls>) -> Result<Self, SettingsError> {
        let read =
            PostgresAddress::read(url, tls).map_err(|problem| SettingsError(problem.text))?;
        Ok(Self {
            options: read.options.application_name("inbox").disable_statement_logging(),
            schema: None,
            connect_timeout: Duration::from_secs(10),
            dead_client_after: Duration::from_secs(30),
            pooler: false,
            functions: None,
        })
    }

    /// The schema of the inbox tables; `migrate` makes it. The search path is then this schema and
    /// `public`.
    ///
    /// # Errors
    ///
    /// When the name is not `^[a-z_][a-z0-9_]{0,62}$`.
    pub fn schema(mut self, schema: &str) -> Result<Self, SettingsError> {
        if !is_plain_name(schema) {
            return Err(SettingsError(format!(
                "the schema {schema:?} is not a valid name: it has 1 to 63 of a-z, 0-9 and _, and \
                 does not begin with a digit"
            )));
        }
        self.schema = Some(schema.to_owned());
        Ok(self)
    }

    /// The name of the sessions in `pg_stat_activity`.
    #[must_use]
    pub fn application_name(mut self, name: &str) -> Self {
        self.options = self.options.application_name(name);
        self
    }

    /// The longest that opening a session may take.
    #[must_use]
    pub fn connect_timeout(mut self, longest: Duration) -> Self {
        self.connect_timeout = longest;
        self
    }

    /// How many prepared statements a session keeps; 0 behind a pooler that does not track them.
    #[must_use]
    pub fn statement_cache(mut self, capacity: usize) -> Self {
        self.options = self.options.statement_cache_capacity(capacity);
        self
    }

    /// For a pooler in transaction mode: no start-up options, no cached statements. The role must
    /// then have `default_transaction_read_only = on` and its search path by `ALTER ROLE`; `check`
    /// looks.
    #[must_use]
    pub fn through_pooler(mut self) -> Self {
        self.pooler = true;
        // The driver's one start-up parameter that a pooler does not know; values travel in binary form.
        self.options = self.options.extra_float_digits(None);
        self.statement_cache(0)
    }

    /// The connection options of a session.
    #[doc(hidden)]
    pub fn session_options(&self) -> PgConnectOptions {
        if self.pooler {
            return self.options.clone();
        }
        let idle = (self.dead_client_after / 3).as_secs().max(1).to_string();
        let user_timeout = self.dead_client_after.as_millis().to_string();
        let options = self.options.clone().options([
            ("tcp_keepalives_idle", idle.as_str()),
            ("tcp_keepalives_interval", idle.as_str()),
            ("tcp_keepalives_count", "2"),
            ("tcp_user_timeout", user_timeout.as_str()),
        ]);
        let options = match &self.schema {
            Some(schema) if schema != "public" => {
                options.options([("search_path", format!("{schema}, public"))])
            }
            Some(_) => options.options([("search_path", "public")]),
            None => options,
        };
        if inbox_engine::internal::Rule::ReadOnlySession.on() {
            options.options([("default_transaction_read_only", "on")])
        } else {
            options
        }
    }

    /// `host:port/database`, for sentences.
    pub(super) fn address(&self) -> String {
        let database = self.options.get_database().unwrap_or(self.options.get_username());
        match self.options.get_socket() {
            Some(path) => format!("{}/{database}", path.display()),
            None => {
                format!("{}:{}/{database}", self.options.get_host(), self.options.get_port())
            }
        }
    }
}

impl fmt::Debug for PgSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgSettings")
            .field("address", &self.address())
            .field("user", &self.options.get_username())
            .field("schema", &self.schema)
            .field("pooler", &self.pooler)
            .finish_non_exhaustive()
    }
}

/// Whether the name needs no quotes: `^[a-z_][a-z0-9_]{0,62}$`.
pub(super) fn is_plain_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=63).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let settings = PgSettings::new("postgres://shop:s3cret@db.example:5433/orders").unwrap();
        let shown = format!("{settings:?}");
        assert!(shown.contains("db.example:5433/orders") && !shown.contains("s3cret"), "{shown}");
        let wrong = PgSettings::new("postgres://shop:s3c#r/et@@:x/y").unwrap_err().to_string();
        assert!(!wrong.contains("s3c"), "{wrong}");
    }

    #[test]
    fn a_schema_name_that_needs_quotes_is_refused() {
        let settings = PgSettings::new("postgres://shop@db/orders").unwrap();
        for wrong in ["", "Inbox", "1st", "a-b", "a b", "a;drop", &"a".repeat(64)] {
            assert!(settings.clone().schema(wrong).is_err(), "{wrong:?}");
        }
        for right in ["inbox", "_i", "i9", &"a".repeat(63)] {
            assert!(settings.clone().schema(right).is_ok(), "{right:?}");
        }
    }

    #[test]
    fn another_databases_url_is_refused() {
        assert!(PgSettings::new("mysql://a@b/c").is_err());
    }
}
