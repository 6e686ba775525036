//! An event that a webhook is called for, and what became of it.

use std::time::Duration;

use outbox_core::OutboxEvent;

/// An event on its way to a webhook.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'e> {
    /// The event as it was appended.
    pub event: &'e OutboxEvent,
    /// The topic that it has; `None` where nothing names one.
    pub topic: Option<&'e str>,
    /// Which attempt it is: 1 for the first.
    pub number: u32,
}

/// What became of an event. Each error is one sentence for people, without secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// The receiver has it.
    Delivered,
    /// It was not taken, and may be later.
    Retry {
        /// Why it was not.
        error: String,
        /// What the receiver asks for: not before this time has passed.
        after: Option<Duration>,
    },
    /// It is never taken.
    Refused {
        /// Why it is not.
        error: String,
    },
    /// The receiver cannot be reached, for any event.
    Unavailable {
        /// Why nobody does.
        error: String,
        /// What the receiver asks for: not before this time has passed.
        after: Option<Duration>,
    },
    /// The receiver may have it, since the answer was lost.
    Unknown {
        /// How it was lost.
        error: String,
    },
}
