//! Which database an address means.

use super::{Database, Problem};

/// The databases a build can know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DatabaseKind {
    /// `postgres://` and `postgresql://`.
    Postgres,
    /// `sqlite:`.
    Sqlite,
}

impl DatabaseKind {
    /// Its name, as messages and features write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

impl Database {
    /// Which database the address means. The sentence never holds the address.
    pub fn kind(&self) -> Result<DatabaseKind, Problem> {
        let url = self.url.expose();
        let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("postgres" | "postgresql") => Ok(DatabaseKind::Postgres),
            Some("sqlite") => Ok(DatabaseKind::Sqlite),
            Some("mysql" | "mariadb") => Err(Problem::fatal(
                &["database.url"],
                "`database.url` names MySQL or MariaDB, which comes in a later version: use \
                 postgres:// or sqlite: until then",
            )),
            _ => Err(Problem::fatal(
                &["database.url"],
                "`database.url` does not say which database it is: begin it with postgres:// or \
                 sqlite:",
            )),
        }
    }
}
