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
        Self(outbox_core::internal::said(&error))
    }
}

/// Milliseconds, as statements take them.
fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// So many failed rows are retried or discarded by one statement: a short transaction, however many there are.
const STEP: i64 = 1_000;
/// So many missing topics are named in an overview.
const TOPICS_SHOWN: usize = 10;

/// A count of rows, as statements take it.
fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Milliseconds, as the database computed them; none below zero.
fn duration(millis: i64) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Who has the turn, out of a row of either database.
macro_rules! held {
    ($row:expr) => {{
        let (rest, lease): (Option<i64>, Option<i64>) =
            ($row.try_get("rest")?, $row.try_get("lease")?);
        $crate::port::HeldTurn {
            holder: $row.try_get("holder")?,
            left: $crate::feed::duration(rest.unwrap_or(0)),
            lease: lease.map($crate::feed::duration),
            mark: $crate::port::LeaseMark {
                fence: $row.try_get("fence")?,
                until: $row.try_get("until")?,
            },
        }
    }};
}
use held;
