//! What `[kafka.raw]` may not hold.

use super::Raw;

const OFFSETS: &str = "the runtime commits the watermark that the database holds, and nothing else \
    may commit or store offsets; remove it";
const SECRET: &str = "it would be kept with the plain settings; use the key of the same name in \
    [kafka], dots written as underscores";

const NO_TOKENS: &str = "no build has a source of bearer tokens; use SCRAM-SHA-512, or a client's \
    certificate, and remove it";

/// What `[kafka.raw]` may not hold: the name, and what to do instead.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("enable.auto.commit", OFFSETS),
    ("auto.commit.enable", OFFSETS),
    ("auto.commit.interval.ms", OFFSETS),
    ("enable.auto.offset.store", OFFSETS),
    ("offset.store.method", OFFSETS),
    ("offset.store.path", OFFSETS),
    ("offset.store.sync.interval.ms", OFFSETS),
    (
        "auto.offset.reset",
        "where a consumer without history begins is `kafka.start`, and a lost offset stops the \
         partition instead of skipping records; set `kafka.start`",
    ),
    (
        "isolation.level",
        "records of aborted transactions must never reach a handler, so it is read_committed; remove it",
    ),
    (
        "partitioner",
        "a consumer does not choose partitions; set it where events are produced \
         (murmur2_random is what Java clients do)",
    ),
    (
        "partition.assignment.strategy",
        "letting partitions go one by one needs cooperative-sticky; choose between the group \
         protocols with `kafka.protocol`",
    ),
    ("group.id", "the group is `kafka.group`, which defaults to `consumer.name`; set that"),
    ("group.instance.id", "static membership is `consumer.instance_id`; set that"),
    ("group.protocol", "the group protocol is `kafka.protocol`; set that"),
    ("bootstrap.servers", "the brokers are `kafka.bootstrap`; set that"),
    ("metadata.broker.list", "the brokers are `kafka.bootstrap`; set that"),
    ("session.timeout.ms", "it is `kafka.session_timeout`; set that"),
    ("heartbeat.interval.ms", "it follows from `kafka.session_timeout`; set that"),
    (
        "max.poll.interval.ms",
        "the runtime polls without waiting for handlers, so it is five minutes; remove it",
    ),
    ("security.protocol", "it is `kafka.security_protocol`; set that"),
    (
        "client.id",
        "the runtime makes it unique per process, which the assignors rely on; remove it",
    ),
    ("enable.partition.eof", "the runtime needs it to pass over missing offsets; remove it"),
    ("check.crcs", "a damaged record must not reach a handler, so it is on; remove it"),
    ("allow.auto.create.topics", "a typo in `kafka.topics` must not create a topic; remove it"),
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
