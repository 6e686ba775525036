//! The one table of all keys.

use std::time::Duration;

use super::{Key, Kind};

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

const fn millis(min: u64, max: u64) -> Kind {
    Kind::Duration { min: Duration::from_millis(min), max: Duration::from_millis(max) }
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Every key, in the order of the documentation.
pub const KEYS: &[Key] = &[
    key(
        "consumer.name",
        Kind::Text,
        "",
        "The name that dedup is scoped to: two deployments with one name share their inbox. Letters, digits, `.`, `_` and `-`, at most 120.",
    ),
    key(
        "consumer.instance_id",
        Kind::Text,
        "",
        "Static membership: a name that only this process uses. A process that is restarted under it takes its partitions back at once; one that is removed keeps them until the session timeout.",
    ),
    key(
        "kafka.bootstrap",
        Kind::Text,
        "",
        "The brokers: `host:port`, several separated by commas.",
    ),
    key("kafka.topics", Kind::List, "", "The topics, by their full names."),
    key(
        "kafka.group",
        Kind::Text,
        "`consumer.name`",
        "The consumer group. The inbox does not depend on it.",
    ),
    key(
        "kafka.start",
        Kind::Choice(&["earliest", "latest", "error"]),
        "earliest",
        "Where a consumer begins that neither the database nor the group has an offset for: at the beginning of the log, at its end, or not at all until a person decides. A partition that is added later begins at its beginning.",
    ),
    key(
        "kafka.protocol",
        Kind::Choice(&["classic", "consumer"]),
        "classic",
        "The group protocol: `classic` (cooperative-sticky) or `consumer` (KIP-848, Kafka 4).",
    ),
    key(
        "kafka.session_timeout",
        millis(SECOND, 5 * MINUTE),
        "45s",
        "A process that is silent for so long loses its partitions. With protocol `consumer` the broker sets it, and this value serves only to check the limits below against it.",
    ),
    key(
        "kafka.security_protocol",
        Kind::Choice(&["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]),
        "plaintext",
        "Encryption and authentication. `ssl` and `sasl_ssl` need a build with the feature `tls` or `tls-vendored`.",
    ),
    key(
        "kafka.ssl_ca_location",
        Kind::Text,
        "",
        "File or folder of trusted certificates; without it the system's are used.",
    ),
    key("kafka.ssl_ca_pem", Kind::Text, "", "Trusted certificates as PEM text."),
    key("kafka.ssl_certificate_location", Kind::Text, "", "File of the client's certificate."),
    key("kafka.ssl_certificate_pem", Kind::Text, "", "The client's certificate as PEM text."),
    key("kafka.ssl_key_location", Kind::Text, "", "File of the client's private key."),
    key("kafka.ssl_key_pem", Kind::Secret, "", "The client's private key as PEM text."),
    key("kafka.ssl_key_password", Kind::Secret, "", "The password of the private key."),
    key(
        "kafka.ssl_endpoint_identification_algorithm",
        Kind::Choice(&["https", "none"]),
        "https",
        "Whether the broker's name is checked against its certificate.",
    ),
    key(
        "kafka.sasl_mechanism",
        Kind::Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]),
        "",
        "How the client authenticates.",
    ),
    key("kafka.sasl_username", Kind::Text, "", "The user's name."),
    key("kafka.sasl_password", Kind::Secret, "", "The user's password."),
    key(
        "kafka.sasl_oauthbearer_method",
        Kind::Choice(&["default", "oidc"]),
        "",
        "Where bearer tokens come from.",
    ),
    key(
        "kafka.sasl_oauthbearer_config",
        Kind::Secret,
        "",
        "The configuration of the token source.",
    ),
    key(
        "kafka.sasl_oauthbearer_client_id",
        Kind::Text,
        "",
        "The client's id at the OIDC provider.",
    ),
    key(
        "kafka.sasl_oauthbearer_client_secret",
        Kind::Secret,
        "",
        "The client's secret at the OIDC provider.",
    ),
    key(
        "kafka.sasl_oauthbearer_token_endpoint_url",
        Kind::Text,
        "",
        "The OIDC provider's token end point.",
    ),
    key("kafka.sasl_oauthbearer_scope", Kind::Text, "", "The scope that is asked for."),
    key(
        "kafka.raw",
        Kind::Settings,
        "",
        "Further settings by librdkafka's names; some are refused, see below.",
    ),
    key(
        "database.url",
        Kind::Secret,
        "",
        "The database of effects and inbox: `postgres://user:password@host/name` or `sqlite:path`.",
    ),
    key(
        "database.schema",
        Kind::Text,
        "",
        "PostgreSQL: the schema of the inbox tables, put first in the search path. Lower-case letters, digits and `_`.",
    ),
    key(
        "database.connections",
        number(1, 64),
        "8",
        "Transactions open at once, each on its own connection. SQLite uses one, whatever is set.",
    ),
    key(
        "database.statement_timeout",
        millis(100, HOUR),
        "20s",
        "The longest statement; the database ends it.",
    ),
    key(
        "database.lock_timeout",
        millis(10, 10 * MINUTE),
        "2s",
        "The longest wait for a lock; then the transaction is tried again with fewer events.",
    ),
    key(
        "database.idle_timeout",
        millis(SECOND, HOUR),
        "40s",
        "The longest silence of this process within a transaction; then the database ends it. It frees what a frozen process has locked.",
    ),
    key(
        "database.statement_cache",
        number(0, 10_000),
        "100",
        "Prepared statements kept per connection. 0 keeps none, as PgBouncer in transaction mode needs it.",
    ),
    key(
        "events.format",
        Kind::Choice(&["own", "custom"]),
        "own",
        "Which rules records are read by: `own`, the headers that outbox-core writes; `custom`, the rules below.",
    ),
    key(
        "events.rules.id",
        Kind::Place,
        "",
        "Where the event's id is, with the format `custom`. A place is `header:NAME`, `key`, `key:hex`, `pointer:/json/pointer`, `topic` or `value:CONSTANT`. `position`, which may be the last place of an id, is topic, partition and offset: for producers that send none.",
    ),
    key(
        "events.rules.id_source",
        Kind::Place,
        "`topic`",
        "What an id that is no UUID is unique within.",
    ),
    key(
        "events.rules.type",
        Kind::Place,
        "",
        "Where the event's type is, by which routes are found.",
    ),
    key(
        "events.rules.aggregate_id",
        Kind::Place,
        "`key`",
        "What order is kept for. With a pointer into the payload the whole partition is one sequence. A change of it changes the lanes.",
    ),
    key("events.rules.aggregate_type", Kind::Place, "`topic`", "The aggregate's type."),
    key(
        "events.rules.aggregate_version",
        Kind::Place,
        "",
        "The aggregate's version after the event: a whole number.",
    ),
    key(
        "events.rules.occurred_at",
        Kind::Place,
        "",
        "When it happened: milliseconds since 1970, or RFC 3339.",
    ),
    key(
        "events.rules.schema_version",
        Kind::Place,
        "",
        "The version of the payload's schema: a whole number.",
    ),
    key(
        "events.unknown_type",
        Kind::Choice(&["park", "ignore"]),
        "park",
        "What happens to an event that no route takes: parked as any failure, or settled and counted.",
    ),
    key(
        "events.event_bytes_max",
        bytes(KIB, 64 * MIB),
        "1MiB",
        "A larger record is parked without being decoded.",
    ),
    key(
        "lanes.count",
        number(1, 256),
        "16",
        "Ordered queues of a partition; what one partition can do at once. The database keeps what a partition was first read with.",
    ),
    key("batch.events_max", number(1, 10_000), "500", "Events of one transaction."),
    key(
        "batch.bytes_max",
        bytes(KIB, 64 * MIB),
        "4MiB",
        "Bytes of one transaction's events; a single larger event goes alone.",
    ),
    key(
        "retry.attempts_max",
        number(1, 100),
        "4",
        "Quick attempts, the first included; then the event is parked. Outages and conflicts do not count.",
    ),
    key(
        "retry.delay_min",
        millis(1, MINUTE),
        "100ms",
        "The delay before the second attempt; it doubles each time.",
    ),
    key("retry.delay_max", millis(1, HOUR), "2s", "The longest delay between two attempts."),
    key(
        "retry.attempt_deadline",
        millis(100, HOUR),
        "30s",
        "The longest attempt of a handler; then its connection is closed and the attempt has failed.",
    ),
    key(
        "park.delay_min",
        millis(1, DAY),
        "1m",
        "The delay before a parked event whose quick attempts are spent is released by itself; it doubles each time, and its upper half is chance. A route may have a schedule of its own (`Routes::schedule`).",
    ),
    key("park.delay_max", millis(1, 365 * DAY), "1h", "The longest delay between two releases."),
    key(
        "park.releases_max",
        number(0, 1_000_000),
        "20",
        "Releases by itself; then the event waits for a person. With 0 only a person releases.",
    ),
    key(
        "limits.partition_bytes_max",
        bytes(64 * KIB, GIB),
        "4MiB",
        "Bytes of one partition in memory; above it the partition is paused in Kafka.",
    ),
    key(
        "limits.parked_aggregates_max",
        number(1, 1_000_000),
        "1000",
        "Aggregates of one partition with parked events; a transaction that would park more is rolled back, and the partition stands still until there is room.",
    ),
    key(
        "limits.parked_events_max",
        number(1, 100_000_000),
        "100000",
        "Parked events of one partition, those that follow others included; beyond it as above.",
    ),
    key(
        "limits.outage_delay_max",
        millis(100, 10 * MINUTE),
        "10s",
        "The longest delay between two attempts to reach a database that is out.",
    ),
    key(
        "limits.drain_deadline",
        millis(0, 10 * MINUTE),
        "5s",
        "How long a partition that is taken away may finish what runs.",
    ),
    key(
        "limits.close_deadline",
        millis(100, 10 * MINUTE),
        "10s",
        "How long leaving the group may take at the end.",
    ),
    key(
        "retention.inbox",
        millis(MINUTE, 3650 * DAY),
        "7d",
        "How long a settled event's inbox row is kept, by the database's clock. A producer's second copy is recognised for so long; Kafka's redeliveries are recognised for ever.",
    ),
    key(
        "retention.prune_interval",
        millis(SECOND, DAY),
        "1m",
        "How often the runtime removes older rows.",
    ),
    key(
        "outbox.event_bytes_max",
        bytes(KIB, 64 * MIB),
        "1MiB",
        "The largest event that a handler appends, as a record with its headers. The brokers (`message.max.bytes`) and the event's consumers have to take it.",
    ),
    key(
        "outbox.wake",
        Kind::Choice(&["notify", "poll"]),
        "notify",
        "PostgreSQL: whether a COMMIT with appended events wakes the relay (`notify`: PostgreSQL then lets such transactions commit one at a time), or the relay finds them when it looks the next time (`poll`).",
    ),
    key(
        "http.listen",
        Kind::Text,
        "127.0.0.1:9464",
        "Where metrics and health are served, read-only: an IP address and a port (`0.0.0.0:9464` for all interfaces, port 0 for any free one), or `off`. An address that is in use does not end the consumer; it is tried again. A build without the feature `http` serves nothing.",
    ),
    key(
        "log.format",
        Kind::Choice(&["auto", "human", "json"]),
        "auto",
        "Lines for people or one JSON object per line; `auto` is `human` on a terminal and `json` otherwise.",
    ),
    key(
        "log.level",
        Kind::Text,
        "info",
        "`error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,inbox_consumer=debug`. The environment variable RUST_LOG goes before it.",
    ),
    key("handlers.event_type", Kind::Text, "", "The type of the events that it takes."),
    key(
        "handlers.mode",
        Kind::Choice(&["each", "run"]),
        "each",
        "`each`: the statement runs once for each event, in order. `run`: once for a run of events, which is a set to it: the fastest way.",
    ),
    key(
        "handlers.one_per_aggregate",
        Kind::Flag,
        "false",
        "With mode `run`: each aggregate occurs once in a run. `ON CONFLICT DO UPDATE` and `UPDATE … FROM` cannot touch a row twice.",
    ),
    key(
        "handlers.columns",
        Kind::Columns,
        "",
        "The typed columns of the relation: `name = \"TYPE\"` or `name = \"TYPE from SOURCE\"`. Types: bool, bytea, date, float8, int4, int8, jsonb, numeric, text, timestamptz, uuid; with `?` behind it the value may be missing. Sources: `/json/pointer` (by default `/name`), `payload`, `header:NAME`, `key`.",
    ),
    key(
        "handlers.sql",
        Kind::Text,
        "",
        "The statement: INSERT, UPDATE, DELETE, MERGE, or SELECT of functions. It reads `events(ord, event_id, aggregate_id, occurred_at, …)`.",
    ),
];
