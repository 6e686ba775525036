//! A client that looks at Kafka and nothing else: what it keeps of what librdkafka tells it.

use std::sync::{Mutex, PoisonError};

use rdkafka::{
    ClientContext, config::RDKafkaLogLevel, consumer::ConsumerContext, error::KafkaError,
    message::DeliveryResult, producer::ProducerContext, types::RDKafkaErrorCode as Code,
};

use crate::trouble;

/// Keeps the first that the client says about its brokers, so that a time-out has a reason: later ones say that every
/// broker is down for it.
#[derive(Default)]
pub(crate) struct Reasons(Mutex<Option<(Code, String)>>);

impl Reasons {
    pub(crate) fn first(&self) -> Option<(Code, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why nobody answers, if it is about TLS or credentials.
    pub(crate) fn refusal(&self, bootstrap: &str) -> Option<String> {
        let (code, why) = self.first()?;
        let trouble = trouble::of(code, &why);
        trouble.is_refusal().then(|| trouble.sentence(bootstrap, &why))
    }
}

impl ClientContext for Reasons {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| (code, reason.to_owned()));
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, "{line}");
    }
}

impl ConsumerContext for Reasons {}

impl ProducerContext for Reasons {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}
