//! Where events go besides Kafka: the trait that a destination has, and what it is told.
//!
//! ```
//! use async_trait::async_trait;
//! use outbox_relay::destination::{Delivery, Outcome, Sink};
//!
//! /// Writes a line for each event.
//! struct Journal(std::path::PathBuf);
//!
//! #[async_trait]
//! impl Sink for Journal {
//!     async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
//!         let append = |delivery: &Delivery| {
//!             use std::io::Write;
//!             let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&self.0)?;
//!             writeln!(file, "{}", delivery.event.envelope().event_id)
//!         };
//!         let outcome = |delivery| match append(delivery) {
//!             Ok(()) => Outcome::Delivered,
//!             // Nobody could write there.
//!             Err(error) => Outcome::unavailable(error.to_string()),
//!         };
//!         batch.iter().map(outcome).collect()
//!     }
//! }
//! ```

mod handlers;
mod named;
#[cfg(feature = "webhook")]
pub(crate) mod webhook;

use std::time::Duration;

use async_trait::async_trait;
use outbox_core::OutboxEvent;

pub use handlers::{Event, Handler, HandlerError, Handlers};
pub(crate) use named::{Destination, of, problems, routes};

/// The HTTP destination: `[[webhooks]]`. Signed by Standard Webhooks, judged by the status of the answer.
///
/// Nothing of an event decides which host is called, no value of it can end a header, and no secret is in an error,
/// a log line or a `Debug`. `docs/webhooks.md` tells receivers what they get.
#[cfg(feature = "webhook")]
pub mod http {
    pub use super::webhook::WebhookSink;
}

/// An event on its way to a destination.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The event as it was appended.
    pub event: OutboxEvent,
    /// The topic by the row or by `kafka.topic`; `None` where neither names one.
    pub topic: Option<String>,
    /// Which attempt it is: 1 for the first. An attempt that was cut short by an outage or by a crash is not counted.
    pub attempt: u32,
}

/// What became of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The destination has it.
    Delivered,
    /// It was not taken, and may be later. This spends an attempt, unless the same befalls every event.
    Retry {
        /// One sentence for people, without secrets; it is kept on the row.
        error: String,
        /// What the destination asks for: not before this time has passed.
        after: Option<Duration>,
    },
    /// It is never taken: the row is set aside, and what follows it of its aggregate waits until a person decides.
    Refused {
        /// One sentence for people, without secrets; it is kept on the row.
        error: String,
    },
    /// Nobody reaches the destination: no attempt is spent, and nothing but probes goes there until one is delivered.
    Unavailable {
        /// One sentence for people, without secrets.
        error: String,
        /// What the destination asks for: not before this time has passed.
        after: Option<Duration>,
    },
    /// It may have it, since the answer was lost. It is sent again under the same id, as with [`Outcome::Retry`].
    Unknown {
        /// One sentence for people, without secrets; it is kept on the row.
        error: String,
    },
}

impl Outcome {
    /// [`Outcome::Retry`] after the relay's own delay.
    pub fn retry(error: impl Into<String>) -> Self {
        Self::Retry { error: error.into(), after: None }
    }

    /// [`Outcome::Refused`].
    pub fn refused(error: impl Into<String>) -> Self {
        Self::Refused { error: error.into() }
    }

    /// [`Outcome::Unavailable`] until a probe comes through.
    pub fn unavailable(error: impl Into<String>) -> Self {
        Self::Unavailable { error: error.into(), after: None }
    }

    /// [`Outcome::Unknown`].
    pub fn unknown(error: impl Into<String>) -> Self {
        Self::Unknown { error: error.into() }
    }

    /// What was said of an event that was not delivered.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn error(&self) -> Option<&str> {
        match self {
            Self::Delivered => None,
            Self::Retry { error, .. }
            | Self::Refused { error }
            | Self::Unavailable { error, .. }
            | Self::Unknown { error } => Some(error),
        }
    }
}

/// A destination.
///
/// An event comes when the one before it of its aggregate is delivered or was given up, never earlier. A relay that
/// dies, or that loses its turn, may have it delivered twice: both times under the same event id, by which the
/// destination knows the copy.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Delivers events of different aggregates; answers one outcome for each, in their order.
    ///
    /// The future is dropped when the relay's turn ends and when [`Sink::deadline`] has passed. A panic counts as
    /// [`Outcome::Retry`] of all of them.
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome>;

    /// Most events of one call; 1 unless said otherwise.
    fn batch_max(&self) -> usize {
        1
    }

    /// Most calls at once; 16 unless said otherwise.
    fn calls_max(&self) -> usize {
        16
    }

    /// Longest call; 1 minute unless said otherwise. What became of its events is unknown then.
    fn deadline(&self) -> Duration {
        Duration::from_mins(1)
    }

    /// What fails together with this event: events of one scope share an outage. All of them, unless said otherwise.
    fn scope(&self, delivery: &Delivery) -> String {
        let _ = delivery;
        String::new()
    }

    /// Looks for what can be seen without sending anything; asked by `check` and before the first turn.
    ///
    /// # Errors
    /// What is wrong, and what to do: one sentence.
    async fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
