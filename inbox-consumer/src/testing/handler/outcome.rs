//! What became of a delivery, and why a test could not go on.

/// What became of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Its handler ran, and the effect is committed; or it went to the topic of dead letters.
    Applied,
    /// Its effect was there already; no handler ran, or what it did was rolled back.
    Duplicate,
    /// Its type is ignored.
    Ignored,
    /// It is parked.
    Parked {
        /// Why, as `inbox_parked.reason` has it, such as `exhausted`.
        reason: String,
        /// The last error; empty for a follower.
        error: String,
        /// How often its handler failed.
        attempts: i64,
    },
}

impl Outcome {
    /// Why it is parked, such as `exhausted`; empty for everything else.
    pub fn reason(&self) -> &str {
        match self {
            Self::Parked { reason, .. } => reason,
            _ => "",
        }
    }

    /// The error that it is parked with; empty for everything else.
    pub fn error(&self) -> &str {
        match self {
            Self::Parked { error, .. } => error,
            _ => "",
        }
    }
}

/// Why a test could not go on: a sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TestError(pub(super) String);

impl TestError {
    pub(super) fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }

    /// `error` happened while `doing`.
    pub(super) fn of(doing: &str, error: impl std::fmt::Display) -> Self {
        Self(format!("{doing}: {error}"))
    }
}
