//! Which database an address means.

use service_kit::{Build, DatabaseKind, scheme};

use super::{Database, Problem};

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
                "`database.url` names MySQL or MariaDB, which comes in a later version: use \
                 postgres:// or sqlite: until then",
            )),
            _ => DatabaseKind::of(&self.url),
        }
    }
}
