//! What became of an event that a caller waits for.

use crate::pipeline::{Delivered, disposition::Disposition};

/// What became of an event. All of it is committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Settlement {
    /// Its handler has run.
    Applied,
    /// Its effect was there already.
    Copy,
    /// It is at or below the last version of its aggregate that was applied: it has no effect.
    Stale,
    /// It was parked before, and is still: its effect is to come.
    ParkedCopy,
    /// It is parked: why, for people.
    Parked {
        /// The word of the database.
        reason: &'static str,
        /// What it failed with, if it is no follower.
        error: String,
    },
    /// Nobody handles its type, and the configuration says to pass over it.
    Ignored,
    /// Nobody can take it: it goes to a topic of its own.
    DeadLettered,
    /// Nothing was written for it: another event has its id.
    Mismatch(String),
}

impl Settlement {
    /// Of a committed verdict.
    pub(super) fn of(
        item: &Delivered,
        disposition: Disposition,
        parked_copies: &[[u8; 16]],
    ) -> Self {
        match disposition {
            Disposition::Applied | Disposition::Run => Self::Applied,
            Disposition::Duplicate if parked_copies.contains(&item.id) => Self::ParkedCopy,
            // A row that was there and is not rolls its transaction back.
            Disposition::Duplicate | Disposition::Vanished => Self::Copy,
            Disposition::Stale(_) => Self::Stale,
            Disposition::Ignore => Self::Ignored,
            Disposition::DeadLetter(_) => Self::DeadLettered,
            Disposition::Refuse(doom) => Self::Mismatch(doom.error),
            Disposition::Wait => Self::Parked {
                reason: inbox_engine::internal::ParkReason::Gap.as_str(),
                error: "an earlier version of its aggregate has not been applied".into(),
            },
            Disposition::Follow => Self::Parked {
                reason: inbox_engine::internal::ParkReason::Follower.as_str(),
                error: "an earlier event of its aggregate is parked".into(),
            },
            Disposition::Park(doom) => {
                Self::Parked { reason: doom.reason.as_str(), error: doom.error }
            }
        }
    }
}
