//! What librdkafka tells: what became of each record, and what is wrong with the brokers.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::{
    ClientContext, Message, config::RDKafkaLogLevel, error::KafkaError, message::DeliveryResult,
    producer::ProducerContext, types::RDKafkaErrorCode as Code,
};

use super::Observer;
use crate::trouble;

/// One record's end: its place in the batch, and the error if it was not acknowledged.
pub(super) type Report = (usize, Option<Code>);

/// What has been told since it was last asked.
pub(super) struct Context {
    bootstrap: String,
    reports: Mutex<Vec<Report>>,
    last: Mutex<Option<String>>,
    /// Those of all producers of the relay, one after the other.
    troubles: Arc<dyn Observer>,
}

impl Context {
    pub(super) fn new(bootstrap: &str, troubles: Arc<dyn Observer>) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
            reports: Mutex::default(),
            last: Mutex::default(),
            troubles,
        }
    }

    /// The reports that came since the last call.
    pub(super) fn reports(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest trouble, for sentences that say why nothing happens.
    pub(super) fn trouble(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        // Warnings about settings that are ours, and failures that come as reports or errors, too.
        let ours = matches!(facility, "CONFWARN" | "FAIL" | "TXNERR");
        self.troubles.line(ours || matches!(level, RDKafkaLogLevel::Debug), facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        if code == Code::Fatal {
            return; // whoever calls next is told
        }
        let sentence = trouble::of(code, reason).sentence(&self.bootstrap, reason);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(sentence.clone());
        self.troubles.trouble(sentence);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<usize>) {
        let error = match result {
            Ok(message) => {
                debug_assert!(message.partition() >= 0, "an acknowledged record has a partition");
                None
            }
            Err((error, _)) => Some(error.rdkafka_error_code().unwrap_or(Code::Fail)),
        };
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push((*place, error));
    }
}
