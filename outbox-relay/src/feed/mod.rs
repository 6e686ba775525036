//! The databases: one folder each, the same files and functions in both, and what they do alike in `flow`. The only
//! room with SQL text.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

mod flow;
#[cfg(feature = "cli")]
#[cfg(test)]
mod tests;

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
        Self(outbox_core::internal::said(&error))
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

/// Milliseconds, as the database computed them; none below zero.
fn duration(millis: i64) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// A statement as it is; in builds that switch rules off, without those that are.
#[cfg(not(feature = "ablation"))]
fn text_to_send(text: &'static str) -> &'static str {
    text
}
#[cfg(feature = "ablation")]
fn text_to_send(text: &'static str) -> &'static str {
    let tables = [
        #[cfg(feature = "postgres")]
        &postgres::ablation::TABLE,
        #[cfg(feature = "sqlite")]
        &sqlite::ablation::TABLE,
    ];
    tables.into_iter().find_map(|table| table.replacement(text)).unwrap_or(text)
}
