//! One batch of spans: a POST of protobuf, tried again where that may help.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use opentelemetry_proto::{
    tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    transform::{
        common::tonic::ResourceAttributesWithSchema,
        trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use prost::Message as _;
use rustls::crypto::ring;
use ureq::{
    Agent,
    http::{Response, StatusCode},
    tls::{Certificate, RootCerts, TlsConfig, TlsProvider},
};

use super::{destination::Destination, queue::Queue};
use crate::{duration, traces::receiver};

/// How long the first wait before another attempt is; each further one is twice as long.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Of what a receiver says, so much is told.
const SAID_CHARS_MAX: usize = 200;

/// Sends batches. The thread of the batches calls it, one at a time.
pub(super) struct Exporter {
    agent: Agent,
    destination: Destination,
    resource: ResourceAttributesWithSchema,
    timeout: Duration,
    queue: Arc<Queue>,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// Why a batch was not taken.
struct Refusal {
    why: String,
    /// Whether another attempt may help.
    passes: bool,
}

impl Exporter {
    /// The error is a sentence.
    pub(super) fn new(
        destination: Destination,
        resource: &Resource,
        timeout: Duration,
        queue: Arc<Queue>,
    ) -> Result<Self, String> {
        let encrypted = receiver(&destination.url).is_ok_and(|receiver| receiver.encrypted);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("inbox/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls(encrypted)?)
            .build();
        let resource = resource.into();
        Ok(Self { agent: config.into(), destination, resource, timeout, queue })
    }

    /// Sends a batch, as often as it may help within the time that it has. Answers what of it the receiver refused.
    fn send(&self, body: &[u8]) -> Result<Option<(u64, String)>, String> {
        let until = Instant::now() + self.timeout;
        let mut wait = AGAIN_AFTER;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Refusal { why, passes } = match self.attempt(body, left) {
                Ok(refused) => return Ok(refused),
                Err(refusal) => refusal,
            };
            if !passes || Instant::now() + wait >= until || !self.queue.tries_again() {
                let url = &self.destination.url;
                let shown = receiver(url).map_or("", |receiver| receiver.shown);
                return Err(format!("{shown}: {why}"));
            }
            thread::sleep(wait);
            wait *= 2;
        }
    }

    fn attempt(&self, body: &[u8], within: Duration) -> Result<Option<(u64, String)>, Refusal> {
        let mut request = self.agent.post(&self.destination.url);
        for (name, value) in &self.destination.headers {
            request = request.header(name, value);
        }
        let request = request.content_type("application/x-protobuf");
        let request = request.config().timeout_global(Some(within)).build();
        let mut answer = request.send(body).map_err(|error| self.unsent(error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Refusal { why: format!("it answered {status}"), passes: may_pass(status) });
        }
        Ok(refused(&mut answer))
    }

    fn unsent(&self, error: ureq::Error) -> Refusal {
        let (why, passes) = match error {
            ureq::Error::Timeout(_) => {
                (format!("no answer within {}", duration::text(self.timeout)), true)
            }
            ureq::Error::Io(error) => (error.to_string(), true),
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => (error.to_string(), true),
            other => (other.to_string(), false),
        };
        Refusal { why, passes }
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        match self.send(&ExportTraceServiceRequest { resource_spans }.encode_to_vec()) {
            Ok(refused) => self.queue.sent(spans, refused),
            Err(error) => self.queue.failed(spans, error),
        }
        Ok(())
    }
}

/// The answers that the protocol says to try again after.
fn may_pass(status: StatusCode) -> bool {
    [429, 502, 503, 504].contains(&status.as_u16())
}

/// What the receiver did not take of a batch, and why. An answer that is none means nothing.
fn refused(answer: &mut Response<ureq::Body>) -> Option<(u64, String)> {
    let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().ok()?;
    let said = ExportTraceServiceResponse::decode(read.as_slice()).ok()?.partial_success?;
    let spans = u64::try_from(said.rejected_spans).ok().filter(|spans| *spans > 0)?;
    Some((spans, said.error_message.chars().take(SAID_CHARS_MAX).collect()))
}

/// TLS as the rest of the program has it: rustls on ring, and the system's authorities, read where they are needed.
fn tls(needed: bool) -> Result<TlsConfig, String> {
    let config = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
    if !needed {
        return Ok(config.build());
    }
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        return Err(
            "spans are not exported: the system has no trusted certificates; install them \
                    (Debian: ca-certificates), or name a file in SSL_CERT_FILE"
                .into(),
        );
    }
    let owned = |der: &[u8]| Certificate::from_der(der).to_owned();
    let roots: Vec<_> = found.certs.iter().map(|certificate| owned(certificate)).collect();
    Ok(config.root_certs(RootCerts::from(roots)).build())
}
