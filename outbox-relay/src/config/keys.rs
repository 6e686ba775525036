//! The one table of all keys.

use service_kit::{DAY, Key, KeyTable, Kind, MIB, MINUTE, SECOND, bytes, key, millis, number};

/// The table as reading, checking and documenting it need it.
pub(super) const TABLE: KeyTable = KeyTable {
    keys: KEYS,
    required: &["kafka.bootstrap", "kafka.topic", "database.url"],
    repeated: &[],
    whole: &[],
    env: "OUTBOX_",
    page: "docs/relay.md",
};

/// Every key, in the order of the documentation.
pub const KEYS: &[Key] = &[
    key(
        "relay.lease",
        millis(SECOND, 10 * MINUTE),
        "15s",
        "How long the active relay may be silent before another takes over, by the database's clock. It renews three times within. A relay that dies is missed for so long; one that is shut down hands over at once.",
    ),
    key(
        "database.url",
        Kind::Secret,
        "",
        "The database of the outbox: `postgres://user:password@host/name` or `sqlite:path`.",
    ),
    key(
        "database.tls",
        Kind::Choice(&["verify-full", "verify-ca", "insecure"]),
        "`verify-full` for another machine",
        "PostgreSQL: how the way there is protected. On another machine the server's certificate and name are checked, whether the URL says `sslmode=verify-full` or nothing; `sslrootcert=FILE` in the URL names an authority beside the system's, `sslcert` and `sslkey` the client's own certificate. `verify-ca` leaves the name out; `insecure` takes the `sslmode` of the URL, whatever it is, which gives the password to whoever pretends to be the server: `check` and every start say so. A socket and the loopback need no word.",
    ),
    key(
        "database.schema",
        Kind::Text,
        "",
        "The schema of the outbox tables (PostgreSQL); the search path of its sessions is this schema alone.",
    ),
    key("database.statement_timeout", millis(100, 10 * MINUTE), "20s", "Longest statement."),
    key(
        "database.statement_cache",
        number(0, 10_000),
        "100",
        "Prepared statements kept per connection; 0 for PgBouncer in transaction mode, which also cannot LISTEN: set `wake.notify` to false there.",
    ),
    key(
        "kafka.bootstrap",
        Kind::Text,
        "",
        "The brokers: `host:port`, several separated by commas.",
    ),
    key(
        "kafka.topic",
        Kind::Text,
        "",
        "The topic of a row that names none: text with `{aggregate_type}` and `{event_type}`, such as `shop.{aggregate_type}`. Order per aggregate holds within a topic.",
    ),
    key(
        "kafka.fencing",
        Kind::Flag,
        "true",
        "Each batch is a transaction of Kafka, and a relay that takes over fences its predecessor at the broker. Without it a relay that was frozen longer than its lease may write old events behind newer ones of the same aggregate.",
    ),
    key(
        "kafka.transactional_id_prefix",
        Kind::Text,
        "outbox-relay",
        "The transactional id is this, a `-` and the outbox's own id. The user needs WRITE and DESCRIBE on it (a prefixed ACL serves).",
    ),
    key(
        "kafka.delivery_timeout",
        millis(SECOND, 7 * MINUTE),
        "30s",
        "How long a batch may wait for the brokers. Afterwards what became of it is unknown: it is purged, aborted, and read from the database again.",
    ),
    key(
        "kafka.message_bytes_max",
        bytes(1_000, 1_000_000_000),
        "1028KiB",
        "The largest record; a larger row is set aside. What `append` takes by default fits in, and fits a broker with default settings.",
    ),
    key(
        "kafka.security_protocol",
        Kind::Choice(&["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]),
        "plaintext",
        "Encryption and authentication. Brokers on other machines need it set: `plaintext` has to be said, and `check` and every start repeat it. `ssl` and `sasl_ssl` need a build with the feature `tls` or `tls-vendored`.",
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
    key("kafka.ssl_keystore_location", Kind::Text, "", "File of certificate and key (PKCS#12)."),
    key("kafka.ssl_keystore_password", Kind::Secret, "", "The password of that file."),
    key(
        "kafka.ssl_endpoint_identification_algorithm",
        Kind::Choice(&["https", "none"]),
        "https",
        "Whether the broker's name is checked against its certificate. With `none`, anybody with a certificate of the same authority can be the broker; `check` and each start say so.",
    ),
    key(
        "kafka.ssl_insecure_any_certificate",
        Kind::Flag,
        "false",
        "Takes whatever certificate the broker has: anybody on the network can be the broker. For a trial only; `check` and each start say so.",
    ),
    key(
        "kafka.sasl_mechanism",
        Kind::Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
        "",
        "How the client authenticates.",
    ),
    key("kafka.sasl_username", Kind::Text, "", "The user."),
    key("kafka.sasl_password", Kind::Secret, "", "The user's password."),
    key(
        "kafka.raw",
        Kind::Settings,
        "",
        "Further settings by librdkafka's names; which may be set is said below.",
    ),
    key(
        "batch.events_max",
        number(1, 10_000),
        "500",
        "Rows that are read, sent and marked together; with fencing they are one transaction of Kafka.",
    ),
    key(
        "batch.bytes_max",
        bytes(1_024, 1_024 * MIB),
        "4MiB",
        "Their payloads together. A single larger row goes alone.",
    ),
    key(
        "wake.notify",
        Kind::Flag,
        "true",
        "Whether the relay LISTENs for the NOTIFY of each append, on a connection of its own (PostgreSQL).",
    ),
    key(
        "wake.poll_interval",
        millis(0, 10 * MINUTE),
        "1s",
        "How often it looks without being told; 0s never. One of the two has to be on; the poll also finds what a NOTIFY during a broken connection would have told.",
    ),
    key(
        "retention.sent",
        millis(0, 3650 * DAY),
        "1d",
        "How long sent and discarded rows are kept.",
    ),
    key(
        "retention.prune_interval",
        millis(SECOND, DAY),
        "10s",
        "How often older ones are removed.",
    ),
    key("retention.chunk", number(1, 100_000), "5000", "How many a statement removes at most."),
    key(
        "limits.outage_delay_max",
        millis(100, 10 * MINUTE),
        "10s",
        "Longest delay between attempts to reach a database or a Kafka that is out.",
    ),
    key(
        "limits.shutdown_deadline",
        millis(100, 10 * MINUTE),
        "10s",
        "How long a shutdown waits for the batch that is under way.",
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
        "`error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,outbox_relay=debug`. The environment variable RUST_LOG goes before it.",
    ),
    key(
        "log.database_text",
        Kind::Flag,
        "false",
        "Whether what the database says of an error is shown as it is, with values of events and rows in it. Without it the log and the errors of parked events (of the relay: of rows that were set aside) have the code, the names of constraint, table and column, the hint and the place in a function, and `…` for values. For the time that a fault is looked for; it holds for the whole process.",
    ),
];
