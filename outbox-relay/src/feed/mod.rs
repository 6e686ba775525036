//! The databases: one folder each, the same files and functions in both. The only room with SQL text.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

mod stored;

#[cfg(feature = "postgres")]
pub(crate) use sqlx::Postgres;
#[cfg(feature = "sqlite")]
pub(crate) use sqlx::Sqlite;
#[cfg(feature = "postgres")]
pub(crate) use sqlx::postgres::PgConnectOptions;
#[cfg(feature = "sqlite")]
pub(crate) use sqlx::sqlite::SqliteConnectOptions;

use crate::port::FeedError;

impl From<sqlx::Error> for FeedError {
    fn from(error: sqlx::Error) -> Self {
        Self(match &error {
            sqlx::Error::Database(said) => match said.code() {
                Some(code) => format!("{} ({code})", said.message()),
                None => said.message().to_owned(),
            },
            other => other.to_string(),
        })
    }
}

/// Milliseconds, as statements take them.
fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A count of rows, as statements take it.
fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What is left of a lease, as the database computed it.
fn left(millis: Option<i64>) -> std::time::Duration {
    let millis = millis.and_then(|millis| u64::try_from(millis).ok()).unwrap_or(0);
    std::time::Duration::from_millis(millis)
}

/// A finding for each privilege that is missing.
fn lacks(table: &str, privilege: &str) -> crate::port::Finding {
    crate::port::Finding {
        fatal: true,
        text: format!(
            "the database's user lacks {privilege} on {table}; run: GRANT {privilege} ON {table} TO it"
        ),
    }
}
