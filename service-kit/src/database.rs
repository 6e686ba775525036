//! Which database an address means, and what is wrong with it.

use crate::{Problem, Secret, choice, is_identifier};

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

    /// Which database an address means.
    ///
    /// # Errors
    /// One sentence, which never holds the address.
    pub fn of(url: &Secret) -> Result<Self, Problem> {
        match scheme(url).as_deref() {
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("sqlite") => Ok(Self::Sqlite),
            _ => Err(Problem::fatal(
                &["database.url"],
                "cannot tell the database from `database.url`: begin it with postgres:// or \
                 sqlite:",
            )),
        }
    }
}

/// What an address begins with, in small letters.
pub fn scheme(url: &Secret) -> Option<String> {
    url.expose().split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase())
}

/// An address without user, password and parameters, for people.
pub fn shown_address(url: &Secret) -> String {
    let text = url.expose();
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.split('?').next().unwrap_or_default().to_owned();
    };
    let shown = rest.split(['?', '#']).next().unwrap_or_default();
    match shown.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://{place}"),
        // The mark is part of a password that is not percent-encoded.
        None if rest.contains('@') => format!("{scheme}://…"),
        None => format!("{scheme}://{shown}"),
    }
}

choice! {
    /// How the way to a PostgreSQL server on another machine is protected, where the address does not say it.
    pub enum DatabaseTls {
        /// By TLS; the server's certificate and its name are checked.
        VerifyFull = "verify-full",
        /// By TLS; the certificate is checked, the name is not.
        VerifyCa = "verify-ca",
        /// As the address says (`sslmode`), which proves nothing about the server.
        Insecure = "insecure",
    }
}

/// What the key `database.tls` does, for its declaration in each program.
#[macro_export]
macro_rules! database_tls {
    () => {
        " PostgreSQL: how the connection is protected. On another machine the server's \
         certificate and name are verified, with `sslmode=verify-full` in the URL or without; \
         `sslrootcert=FILE` in the URL names an authority in addition to the system's, `sslcert` \
         and `sslkey` the client's own certificate. `verify-ca` skips the name; `insecure` uses \
         any `sslmode` of the URL, which may send the password to an impostor: `check` and every \
         start warn. Sockets and the loopback need no setting."
    };
}

/// Where a database is, as `[database]` says it.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseAddress<'c> {
    /// `database.url`.
    pub url: &'c Secret,
    /// `database.schema`.
    pub schema: Option<&'c str>,
    /// `database.tls`.
    pub tls: Option<DatabaseTls>,
}

/// A build: the package, and which databases it was built with.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The name of the package.
    pub package: &'static str,
    /// Whether it has the feature `postgres`.
    pub postgres: bool,
    /// Whether it has the feature `sqlite`.
    pub sqlite: bool,
}

impl Build {
    /// What is wrong with an address, of which the kind is known.
    pub fn problems(self, kind: DatabaseKind, address: DatabaseAddress<'_>) -> Vec<Problem> {
        let mut found = Vec::new();
        let built_in = match kind {
            DatabaseKind::Postgres => self.postgres,
            DatabaseKind::Sqlite => self.sqlite,
        };
        if !built_in {
            found.push(Problem::fatal(
                &["database.url"],
                format!(
                    "`database.url` names {0}, which this build does not include; build {1} with \
                     the feature `{0}`",
                    kind.name(),
                    self.package
                ),
            ));
        }
        found.extend(address.schema.and_then(|schema| unfit(schema, kind)));
        if kind != DatabaseKind::Postgres && address.tls.is_some() {
            let text = "`database.tls` is for PostgreSQL only; remove it";
            found.push(Problem::fatal(&["database.tls"], text));
        }
        #[cfg(feature = "postgres")]
        if kind == DatabaseKind::Postgres && !names_no_server(address.url) {
            match crate::PostgresAddress::read(address.url.expose(), address.tls) {
                Ok(read) => found.extend(read.doubts),
                Err(problem) => found.push(problem),
            }
        }
        found
    }
}

/// Only which database it is: a program has its own way to connect.
#[cfg(feature = "postgres")]
fn names_no_server(url: &Secret) -> bool {
    url.expose().split_once(':').is_some_and(|(_, rest)| rest.is_empty())
}

/// What is wrong with a schema.
fn unfit(schema: &str, kind: DatabaseKind) -> Option<Problem> {
    if kind != DatabaseKind::Postgres {
        let text = "`database.schema` is for PostgreSQL only; remove it";
        return Some(Problem::fatal(&["database.schema"], text));
    }
    (!is_identifier(schema)).then(|| {
        Problem::fatal(
            &["database.schema"],
            format!(
                "`database.schema` {schema:?} is not a plain name; use lower-case letters, digits \
                 and `_`, not beginning with a digit, at most 63"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_is_secret() {
        let cases = [
            ("postgres://ada:c4n4ry@db:5432/shop?sslmode=require", "postgres://db:5432/shop"),
            ("postgres://ada:c4n@4ry@db/shop", "postgres://db/shop"),
            ("postgres://ada:c4n?4ry@db/shop", "postgres://…"),
            ("postgres://db/shop?password=c4n4ry", "postgres://db/shop"),
            ("postgres:", "postgres:"),
            ("sqlite:shop.db?mode=rwc", "sqlite:shop.db"),
        ];
        for (url, shown) in cases {
            assert_eq!(shown_address(&url.into()), shown);
        }
    }
}
