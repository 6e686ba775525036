//! `[intake]`: events by HTTP.

use std::{net::SocketAddr, time::Duration};

use outbox_core::internal::{RequestPlace, request_pointer};
use service_kit::{Problem, is_loopback, section};

/// Events come by a router that a service mounts itself.
const MOUNTED: &str = "mounted";
const OFF: &str = "off";

section! {
    /// `[intake]`: events by HTTP, `POST /events`. See `docs/intake.md`.
    pub struct Intake as "intake" {
        /// Where events are accepted: an IP address and a port, `mounted` if a service mounts the
        /// router itself, or `off`. No TLS: put it behind a proxy with TLS to reach it from other
        /// machines. A build without the feature `intake` accepts none.
        listen: String = "off";
        /// Ordered queues of the intake, like `lanes.count` of a partition. The database keeps the
        /// number that the intake was first opened with.
        lanes: u16 = "16", in 1..=256;
        /// Maximum number of concurrent intake transactions, each on its own connection; events
        /// that arrive meanwhile share the next.
        transactions_max: u16 = "4", in 1..=64;
        /// Maximum size of a request's body.
        body_bytes_max: usize = "1MiB", in 1KiB..=64MiB;
        /// Maximum size of all bodies arriving in this process, before their senders are known.
        /// Above it, the body that has been arriving longest is answered 503.
        arriving_bytes_max: usize = "64MiB", in 1MiB..=1GiB;
        /// Maximum number of events per request.
        events_max: usize = "1000", in 1..=10_000;
        /// Maximum size of waiting and running events; above it requests are answered 503.
        queue_bytes_max: usize = "64MiB", in 1MiB..=1GiB;
        /// Maximum number of connections; for one more, the connection that has been idle longest, or does not read, is closed.
        connections_max: u16 = "1024", in 1..=65_535;
        /// How long a head may take to arrive, a body, and then the answer; beyond that the answer is 503. So long a sender
        /// may take to read it.
        request_timeout: Duration = "30s", in 100ms..=10m;
        /// Files with the secrets that requests are signed with (Standard Webhooks): `whsec_…`, one in a line; 8 at
        /// most. With them every request has to be signed by one of them. They are read again every 10 s.
        secret_files: Vec<String>;
        /// Maximum difference between the time of a signature and this machine's clock.
        signature_tolerance: Duration = "5m", in 1s..=1h;
        /// Where the aggregate's id is in the body of a webhook without the header `Aggregate-Id`:
        /// a JSON pointer, such as `/data/order_id`. By default each webhook is its own aggregate.
        webhook_aggregate_id: Option<String>;
        /// For senders of `application/json` in another form: where the event's id is, as a JSON
        /// pointer into the body, such as `/id`, or as `header:Idempotency-Key`. A request with an
        /// id there is read by this map: `intake.map_type` and `intake.map_payload` set the other
        /// places, `intake.webhook_aggregate_id` that of the aggregate.
        map_id: Option<String>;
        /// Where the event's type is, such as `/type` or `header:X-Event-Type`.
        map_type: Option<String>;
        /// Where the event's payload is, such as `/payload`; by default the whole body.
        map_payload: Option<String>;
    }
}

impl Intake {
    /// Whether events are taken by HTTP at all.
    pub fn is_on(&self) -> bool {
        self.listen != OFF
    }

    /// Where the program listens itself.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.parse().ok()
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if !self.is_on() {
            return found;
        }
        if self.listen != MOUNTED && self.address().is_none() {
            let text = format!(
                "`intake.listen` is {:?}, which is not an address; set an IP address and a port, \
                 such as 127.0.0.1:8080, or mounted, or off",
                self.listen
            );
            found.push(Problem::fatal(&["intake.listen"], text));
        }
        if cfg!(not(feature = "intake")) {
            let text = "`intake.listen` is set, but this build accepts no events by HTTP; build \
                        inbox-consumer with the feature `intake`, or set it to off";
            found.push(Problem::fatal(&["intake.listen"], text));
        }
        if let Some(address) = self.address()
            && self.secret_files.is_empty()
            && !is_loopback(&address.ip().to_string())
        {
            let text = "`intake.secret_files` is empty, so anybody who reaches `intake.listen` \
                        can send events; name a file with a secret, or listen on 127.0.0.1";
            found.push(Problem::doubt(&["intake.secret_files", "intake.listen"], text));
        }
        found.extend(self.map_problem());
        if let Some(pointer) = &self.webhook_aggregate_id
            && request_pointer(pointer).is_none()
        {
            let text = format!(
                "`intake.webhook_aggregate_id` is {pointer:?}, which is not a JSON pointer; begin \
                 it with /, as in /data/order_id, and write ~ as ~0"
            );
            found.push(Problem::fatal(&["intake.webhook_aggregate_id"], text));
        }
        found
    }

    /// What is wrong with the map of fields.
    fn map_problem(&self) -> Option<Problem> {
        let Self { map_id, map_type, map_payload, .. } = self;
        let places = [("intake.map_id", map_id), ("intake.map_type", map_type)];
        for (key, place) in places {
            if let Some(place) = place.as_ref().filter(|it| RequestPlace::read(it).is_none()) {
                let text = format!(
                    "`{key}` is {place:?}; set a JSON pointer such as /id, with ~ as ~0, or a header such as \
                     header:Idempotency-Key"
                );
                return Some(Problem::fatal(&[key], text));
            }
        }
        if let Some(pointer) = map_payload.as_ref().filter(|it| request_pointer(it).is_none()) {
            let text = format!(
                "`intake.map_payload` is {pointer:?}; set a JSON pointer such as /payload, with ~ as ~0"
            );
            return Some(Problem::fatal(&["intake.map_payload"], text));
        }
        let both =
            map_id.is_some() == map_type.is_some() && (map_id.is_some() || map_payload.is_none());
        if !both {
            let text = "`intake.map_id` and `intake.map_type` belong together; set both, or neither of them and no \
                        `intake.map_payload`";
            return Some(Problem::fatal(&["intake.map_id", "intake.map_type"], text));
        }
        let id = map_id.as_deref().and_then(RequestPlace::read);
        let unsigned = matches!(id, Some(RequestPlace::Header(_)));
        (unsigned && !self.secret_files.is_empty()).then(|| {
            let text = "`intake.map_id` is a header, and signatures do not cover headers: one \
                        signed body could be replayed as many events under invented ids; set a \
                        place in the body, or remove `intake.secret_files`";
            Problem::fatal(&["intake.map_id", "intake.secret_files"], text)
        })
    }
}
