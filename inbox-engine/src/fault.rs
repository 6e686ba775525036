//! What went wrong with a transaction or with a handler on one of its events, and why events are parked.

/// Why a transaction did not commit, or may not have. No event is answerable for it; the engine decides
/// what repeats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransactionFault {
    /// Rolled back: a deadlock, a serialization failure.
    Conflict(String),
    /// Rolled back: another session holds what a handler works on, longer than a lock is waited for.
    Locked {
        /// The route of the handler.
        route: u32,
        /// What the database said.
        error: String,
    },
    /// Rolled back: the session broke under a handler, and a new one worked right then, up to its commit.
    Broken(String),
    /// Rolled back: the database is not there.
    Outage(String),
    /// Rolled back by a conflict before any handler had run: another transaction holds what it needs.
    Blocked(String),
    /// Rolled back before any handler had run: the database is not there, or refuses the runtime's own
    /// work; or it takes such work from nobody at the moment.
    Unreached(String),
    /// Whether it committed is not known.
    Unknown(String),
    /// Rolled back: the lanes are not where this process left them.
    Fenced,
}

impl TransactionFault {
    /// What it means when no handler had run: a fault that is no event's.
    #[must_use]
    pub fn before_handlers(self) -> Self {
        match self {
            Self::Conflict(error) | Self::Locked { error, .. } => Self::Blocked(error),
            Self::Outage(error) | Self::Broken(error) => Self::Unreached(error),
            other => other,
        }
    }
}

/// A handler's failure on one event of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which item of the batch; `None` when a batch handler did not name the culprit.
    pub index: Option<usize>,
    /// Whether it may succeed later.
    pub fault: HandlerFault,
    /// The error, for people.
    pub error: String,
}

impl Failure {
    /// A failure that counts as the handler's and may pass.
    pub fn retry(index: usize, error: String) -> Self {
        Self { index: Some(index), fault: HandlerFault::Retry, error }
    }

    /// Why the event is parked now, if it is.
    pub(crate) fn park_reason(&self, attempts: u32, attempts_max: u32) -> Option<ParkReason> {
        let again = self.fault == HandlerFault::Retry && attempts < attempts_max;
        (!again).then(|| self.fault.park_reason())
    }
}

/// What a handler is answerable for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HandlerFault {
    /// Try again, then park.
    Retry,
    /// Park.
    Reject,
    /// Park: the process ends when it is run.
    Crash,
}

impl HandlerFault {
    /// Why an event is parked that is not tried again after it.
    pub fn park_reason(self) -> ParkReason {
        match self {
            Self::Retry => ParkReason::Exhausted,
            Self::Reject => ParkReason::Rejected,
            Self::Crash => ParkReason::Crashed,
        }
    }
}

/// Why an event is parked instead of run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doom {
    /// The reason, as `inbox_parked.reason` has it.
    pub reason: ParkReason,
    /// The last error, for people.
    pub error: String,
}

/// Why an event is parked. The text in `inbox_parked.reason` is [`ParkReason::as_str`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ParkReason {
    /// A person has said so.
    ByHand,
    /// The process ends when it is run.
    Crashed,
    /// Its handler failed as often as it may.
    Exhausted,
    /// An earlier event of its aggregate is parked.
    Follower,
    /// A version of its aggregate before its own was not applied.
    Gap,
    /// It has waited for one long enough: it is run as it is.
    GapOver,
    /// The same id was seen with other content.
    Mismatch,
    /// Its handler said that it can never succeed.
    Rejected,
    /// A transaction was torn by a handler that ended it; whether the effect is there is not known.
    Torn,
    /// The record could not be read as an event.
    Undecodable,
    /// No route takes its type.
    UnknownType,
}

impl ParkReason {
    /// The word in the database, in logs and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ByHand => "by_hand",
            Self::Crashed => "crashed",
            Self::Exhausted => "exhausted",
            Self::Follower => "follower",
            Self::Gap => "gap",
            Self::GapOver => "gap_over",
            Self::Mismatch => "mismatch",
            Self::Rejected => "rejected",
            Self::Torn => "torn",
            Self::Undecodable => "undecodable",
            Self::UnknownType => "unknown_type",
        }
    }
}
