//! What both databases share in small.

/// What is wrong with a database's settings: one sentence that names what to change, never a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

/// The limits of the transactions that are not a handler's: short, and tried again by the caller.
pub(crate) const OWN_LIMITS: crate::port::TxLimits = crate::port::TxLimits {
    statement_timeout: std::time::Duration::from_secs(10),
    lock_timeout: std::time::Duration::from_secs(2),
    idle_timeout: std::time::Duration::from_secs(10),
};

/// An answer of the database that its own statement cannot give: somebody changed the tables by hand.
pub(crate) fn unexpected(sentence: impl Into<String>) -> sqlx::Error {
    sqlx::Error::Protocol(sentence.into())
}

/// A 16-byte column, as an array.
pub(crate) fn sixteen(bytes: &[u8]) -> Result<[u8; 16], sqlx::Error> {
    bytes.try_into().map_err(|_| {
        unexpected(format!(
            "a column of the inbox tables holds {} bytes instead of 16",
            bytes.len()
        ))
    })
}

/// A lane number, as the database has it.
pub(crate) fn lane(number: i32) -> Result<inbox_engine::internal::Lane, sqlx::Error> {
    u16::try_from(number)
        .map(inbox_engine::internal::Lane)
        .map_err(|_| unexpected(format!("inbox_lanes contains the impossible lane {number}")))
}

/// What an operator asked for, and who. The columns hold one of two words, or nothing.
pub(crate) fn intent(
    word: Option<&str>,
    who: Option<&str>,
) -> Option<(crate::port::release::Intent, String)> {
    use crate::port::release::Intent;
    let intent = match word? {
        "discard" => Intent::Discard,
        _ => Intent::Release,
    };
    Some((intent, who.unwrap_or("unknown").to_owned()))
}

/// A time span as the databases take it.
pub(crate) fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A count of the database: never negative.
pub(crate) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
