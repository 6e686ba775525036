//! How an intake works: what a configuration says of it.

use std::time::Duration;

use outbox_core::{IdScope, Reader, RulesError};

use crate::{
    format::{self, WebhookRules},
    portion::QueueLimits,
    secrets::Secrets,
};

/// How requests are taken.
#[derive(Debug)]
pub struct IntakeSettings {
    /// Bytes of a body.
    pub body_bytes_max: usize,
    /// Bytes of all bodies that arrive.
    pub arriving_bytes_max: usize,
    /// Events of a request.
    pub events_max: usize,
    /// Connections of [`Intake::serve`](crate::Intake::serve).
    pub connections_max: usize,
    /// For reading a body, and again for the answer.
    pub request_timeout: Duration,
    /// What waits, and runs.
    pub queue: QueueLimits,
    /// With secrets each request has to be signed.
    pub secrets: Option<Secrets>,
    /// How far a signature's time may be from now.
    pub signature_tolerance: Duration,
    /// Where the parts of webhooks are.
    pub webhook: WebhookRules,
}

/// What reads the records that requests become; a transaction and a release read them by the same one.
///
/// # Errors
/// Never: its rules are known.
pub fn reader(id_scope: IdScope, bytes_max: usize) -> Result<Reader, RulesError> {
    format::reader(id_scope, bytes_max)
}
