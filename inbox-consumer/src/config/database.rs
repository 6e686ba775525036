//! `[database]`: where effects and inbox live.

use std::time::Duration;

use service_kit::{Build, DatabaseKind, DatabaseTls, Secret, scheme, section};

use super::Problem;

section! {
    /// `[database]`: one database for effects and inbox.
    pub struct Database as "database" {
        /// The database of effects and inbox: `postgres://user:password@host/name` or
        /// `sqlite:path`. Percent-encode special characters in the password. PostgreSQL: parts that
        /// the URL leaves out come from the variables `PGUSER`, `PGPASSWORD` (or a password file,
        /// `PGPASSFILE`), `PGHOST`, `PGPORT` and `PGDATABASE`.
        url: Secret = required;
        #[doc = service_kit::database_tls!()]
        tls: Option<DatabaseTls>, shown "`verify-full` for another machine";
        /// PostgreSQL: the schema of the inbox tables, put first in the search path. Lower-case
        /// letters, digits and `_`.
        schema: Option<String>;
        /// Maximum number of concurrent transactions, each on its own connection. SQLite always uses one.
        connections: u16 = "8", in 1..=64;
        /// Longest statement; the database then cancels it. Longer than `database.lock_timeout`,
        /// shorter than `retry.attempt_deadline`.
        statement_timeout: Duration = "20s", in 100ms..=1h, shown "`retry.attempt_deadline` / 1.5, at most 20s";
        /// Longest wait for a lock, shorter than `database.statement_timeout`; then the transaction
        /// is retried with fewer events.
        lock_timeout: Duration = "2s", in 10ms..=10m, shown "`database.statement_timeout` / 2, at most 2s";
        /// Longest silence of this process within a transaction; then the database ends it. This
        /// releases the locks of a frozen process: until then its partitions stall for their next
        /// owner, even if `kafka.session_timeout` is shorter. Longer than `retry.attempt_deadline`,
        /// since a handler may be silent that long: lower both to release locks sooner. Should be
        /// at most 1m, or `kafka.session_timeout` if that is longer.
        idle_timeout: Duration = "40s", in 1s..=1h, shown "`kafka.session_timeout`, at most 40s, at least `retry.attempt_deadline` × 4/3";
        /// Prepared statements kept per connection. 0 keeps none and names none, as PgBouncer in
        /// transaction mode requires.
        statement_cache: u16 = "100", in 0..=10_000;
    }
}

/// What this build can do.
pub(super) const BUILD: Build = Build {
    package: "inbox-consumer",
    postgres: cfg!(feature = "postgres"),
    sqlite: cfg!(feature = "sqlite"),
};

impl Database {
    /// Which database the address means. The sentence never holds the address.
    pub fn kind(&self) -> Result<DatabaseKind, Problem> {
        match scheme(&self.url).as_deref() {
            Some("mysql" | "mariadb") => Err(Problem::fatal(
                &["database.url"],
                "`database.url` names MySQL or MariaDB, which is not supported yet: use \
                 postgres:// or sqlite:",
            )),
            _ => DatabaseKind::of(&self.url),
        }
    }
}
