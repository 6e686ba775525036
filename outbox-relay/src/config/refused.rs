//! What `[kafka.raw]` may not hold.

use super::Raw;

const SECRET: &str = "it would be kept with the plain settings; use the key of the same name in \
    [kafka], dots written as underscores";
const ORDER: &str =
    "order per aggregate and the promise that nothing is lost rest on it; remove it";

const NO_TOKENS: &str = "no build has a source of bearer tokens; use SCRAM-SHA-512, or a client's \
    certificate, and remove it";

/// What `[kafka.raw]` may not hold: the name, and what to do instead.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("enable.idempotence", ORDER),
    ("enable.gapless.guarantee", ORDER),
    ("acks", ORDER),
    ("request.required.acks", ORDER),
    ("max.in.flight", ORDER),
    ("max.in.flight.requests.per.connection", ORDER),
    ("message.send.max.retries", ORDER),
    ("retries", ORDER),
    (
        "partitioner",
        "keys have to land where Java's clients put them, so it is murmur2_random; remove it",
    ),
    (
        "transactional.id",
        "it is made from the outbox's own id, so that two outboxes cannot share one; set \
         `kafka.transactional_id_prefix`, or `kafka.fencing` to false",
    ),
    (
        "delivery.report.only.error",
        "the relay marks a row when its acknowledgement is reported; remove it",
    ),
    ("transaction.timeout.ms", "it follows from `kafka.delivery_timeout`; set that"),
    ("message.timeout.ms", "it is `kafka.delivery_timeout`; set that"),
    ("delivery.timeout.ms", "it is `kafka.delivery_timeout`; set that"),
    ("message.max.bytes", "it is `kafka.message_bytes_max`; set that"),
    ("bootstrap.servers", "the brokers are `kafka.bootstrap`; set that"),
    ("metadata.broker.list", "the brokers are `kafka.bootstrap`; set that"),
    ("security.protocol", "it is `kafka.security_protocol`; set that"),
    (
        "client.id",
        "the relay makes it unique per process, so that broker logs tell them apart; remove it",
    ),
    ("sasl.password", SECRET),
    ("ssl.key.pem", SECRET),
    ("ssl.key.password", SECRET),
    ("sasl.oauthbearer.config", NO_TOKENS),
    ("sasl.oauthbearer.client.secret", NO_TOKENS),
];

/// Why `[kafka.raw]` refuses a setting, and what to do instead; `None` when it may be set.
pub fn refused(name: &str) -> Option<&'static str> {
    Raw::refusal(REFUSED, name)
}
