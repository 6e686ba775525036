//! The databases: one folder each, the same files and functions in both. The only room with SQL text.
//!
//! Every call outside the live transaction (take-over, watermark, prune, …) opens and ends a
//! transaction of its own. None of them may be dropped half-way: a connection whose call was dropped
//! has to be closed.

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

mod declared;
mod end;
mod inspect;
mod migration;
#[cfg(feature = "postgres")]
mod queued;
mod takeover;

#[cfg(feature = "postgres")]
pub use postgres::PgSettings;
#[cfg(all(feature = "postgres", feature = "testing"))]
pub(crate) use queued::fits;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteSettings;

/// What is wrong with a database's settings: one sentence that names what to change, never a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

/// The limits of the transactions that are not a handler's: short, and tried again by the caller.
const OWN_LIMITS: crate::pipeline::port::TxLimits = crate::pipeline::port::TxLimits {
    statement_timeout: std::time::Duration::from_secs(10),
    lock_timeout: std::time::Duration::from_secs(2),
    idle_timeout: std::time::Duration::from_secs(10),
};

/// An answer of the database that its own statement cannot give: somebody changed the tables by hand.
fn unexpected(sentence: impl Into<String>) -> sqlx::Error {
    sqlx::Error::Protocol(sentence.into())
}

/// A 16-byte column, as an array.
fn sixteen(bytes: &[u8]) -> Result<[u8; 16], sqlx::Error> {
    bytes.try_into().map_err(|_| {
        unexpected(format!(
            "a column of the inbox tables holds {} bytes instead of 16",
            bytes.len()
        ))
    })
}

/// A lane number, as the database has it.
fn lane(number: i32) -> Result<inbox_engine::Lane, sqlx::Error> {
    u16::try_from(number)
        .map(inbox_engine::Lane)
        .map_err(|_| unexpected(format!("inbox_lanes holds the lane {number}, which cannot be")))
}

/// Discards that one release carries out beyond the events that it runs.
const DISCARDS_MAX: usize = 500;

/// Parked rows whose keys are looked at in one statement: each comes with its record.
const KEYS_MAX: i64 = 500;

/// What an operator asked for, and who. The columns hold one of two words, or nothing.
fn intent(
    word: Option<&str>,
    who: Option<&str>,
) -> Option<(crate::pipeline::port::release::Intent, String)> {
    use crate::pipeline::port::release::Intent;
    let intent = match word? {
        "discard" => Intent::Discard,
        _ => Intent::Release,
    };
    Some((intent, who.unwrap_or("unknown").to_owned()))
}

/// A time span as the databases take it.
fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A count of the database: never negative.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
