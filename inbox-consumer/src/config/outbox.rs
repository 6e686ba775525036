//! `[outbox]`: how handlers append events.

use serde::{Deserialize, Serialize};
use service_kit::size;

/// `[outbox]`: how handlers append events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outbox {
    /// The largest event, as a record with its headers.
    #[serde(deserialize_with = "size::deserialize")]
    pub event_bytes_max: usize,
    /// How a relay learns of appended events.
    pub wake: Wake,
}

/// How a relay learns of appended events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wake {
    /// The COMMIT tells it (`PostgreSQL`).
    #[default]
    Notify,
    /// It looks from time to time.
    Poll,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { event_bytes_max: outbox_core::EVENT_BYTES_MAX, wake: Wake::default() }
    }
}

impl From<Outbox> for outbox_core::Outbox {
    fn from(Outbox { event_bytes_max, wake }: Outbox) -> Self {
        Self::default().bytes_max(event_bytes_max).notify(wake == Wake::Notify)
    }
}
