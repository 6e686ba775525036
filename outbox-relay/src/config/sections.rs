//! Everything a relay is told, a field for each section.

use std::{path::Path, time::Duration};

use kafka_kit::internal::Properties;
use service_kit::{
    ConfigError, DatabaseTls, Http, Log, Overrides, Raw, Secret, Security, Traces, choice,
    configuration, properties::Program, section,
};

use super::{Debezium, Webhook};

configuration! {
    /// Everything a relay is told.
    pub struct Config: "OUTBOX_", "relay-reference", "outbox_relay", 9465 {
        /// How relays of one outbox share it.
        relay: Relaying,
        /// Where the outbox is.
        database: Database,
        /// Where events go, and how.
        kafka: Kafka,
        /// What the table of another outbox looks like, and records as Debezium makes them of it.
        debezium: Debezium,
        /// How much goes together.
        batch: Batch,
        /// What makes the relay look.
        wake: Wake,
        /// How long rows are kept.
        retention: Retention,
        /// How events that were not delivered are tried again.
        retry: Retry,
        /// What bounds waiting.
        limits: Limits,
        /// Where metrics and health are served.
        http: Http,
        /// What is logged, and how.
        log: Log,
        /// Where spans are exported to.
        traces: Traces,
        /// Which events go where.
        routes: Vec<Route>,
        /// Destinations that are told by HTTP.
        webhooks: Vec<Webhook>,
    }
}

section! {
    /// `[relay]`: how relays of one outbox share it.
    #[derive(Copy)]
    pub struct Relaying as "relay" {
        /// Whether it ships at all. For services that embed it: a disabled relay opens no
        /// connection and waits for shutdown.
        enabled: bool = "true";
        /// How long the active relay may be silent before another acquires the lease, by the
        /// database's clock. It renews three times within. After a crash nothing is sent for up to
        /// this long; a shutdown releases the lease at once.
        lease: Duration = "15s", in 1s..=10m;
        /// Whether other relays of the outbox work beside this one, each for a share of the aggregates.
        /// Without it, one relay works and the others stand by. On SQLite, always one works. After a
        /// failover to a replica that has lost commits, or a restore, relays that share may send
        /// records of an aggregate out of order.
        shared: bool = "false";
    }
}

section! {
    /// `[database]`: the database of the outbox.
    pub struct Database as "database" {
        /// The database of the outbox: `postgres://user:password@host/name` or `sqlite:path`.
        /// Percent-encode special characters in the password. PostgreSQL: parts that the URL leaves
        /// out come from the variables `PGUSER`, `PGPASSWORD` (or a password file, `PGPASSFILE`),
        /// `PGHOST`, `PGPORT` and `PGDATABASE`.
        url: Secret = required;
        #[doc = service_kit::database_tls!()]
        tls: Option<DatabaseTls>, shown "`verify-full` for another machine";
        /// PostgreSQL: the schema of the outbox tables; the search path is this schema alone.
        schema: Option<String>;
        /// Longest statement.
        statement_timeout: Duration = "20s", in 100ms..=10m;
        /// Prepared statements kept per connection; 0 for PgBouncer in transaction mode, which does
        /// not support LISTEN either: set `wake.notify` to false there.
        statement_cache: u16 = "100", in 0..=10_000;
    }
}

section! {
    /// `[kafka]`: the cluster, and how events get there.
    pub struct Kafka as "kafka" {
        /// The brokers: `host:port`, separated by commas. Not needed if no route leads to Kafka.
        bootstrap: String = required;
        /// The topic of a row that names none: a template with `{aggregate_type}` and
        /// `{event_type}`, such as `shop.{aggregate_type}`. Order per aggregate holds within a
        /// topic. Not needed if no route leads to Kafka, nor with another format than `own`.
        topic: String = required;
        /// The format of records: `own`, or `debezium-outbox`, as Debezium's outbox event router
        /// writes them by the settings of `[debezium]`, including topics and keys.
        format: RecordFormat;
        /// Whether each batch is a Kafka transaction, and a relay that acquires the lease fences
        /// its predecessor at the broker. Without it, a relay that was frozen longer than its lease
        /// may write old events behind newer ones of the same aggregate.
        fencing: bool = "true";
        /// The transactional id is this prefix, a `-` and the outbox's id. The user needs WRITE and
        /// DESCRIBE on it (a prefixed ACL is enough).
        transactional_id_prefix: String = "outbox-relay";
        /// How long a batch may wait for the brokers. After that its outcome is unknown: it is
        /// purged, aborted, and read from the database again.
        delivery_timeout: Duration = "30s", in 1s..=7m;
        /// The largest record; larger rows are parked. The default fits what `append` accepts by
        /// default, and brokers with default settings.
        message_bytes_max: usize = "1028KiB", in 1kB..=1GB;
        /// TLS and SASL, passed through to the client.
        ..flatten security: Security;
        /// Further librdkafka settings by their own names; the list of allowed ones is below.
        raw: Raw;
    }
}

choice! {
    /// What a record of Kafka looks like.
    pub enum RecordFormat {
        /// The relay's own: headers by name, the payload as it is.
        Own = "own",
        /// What Debezium's outbox event router writes.
        DebeziumOutbox = "debezium-outbox",
    }
}

section! {
    /// `[batch]`: how much is read, sent and marked together.
    #[derive(Copy)]
    pub struct Batch as "batch" {
        /// Maximum number of rows that are read, sent and marked together; with fencing they are one Kafka transaction.
        events_max: usize = "2000", in 1..=10_000;
        /// Maximum size of their payloads. A single larger row is sent alone.
        bytes_max: usize = "8MiB", in 1KiB..=1GiB;
    }
}

section! {
    /// `[wake]`: what makes the relay look.
    #[derive(Copy)]
    pub struct Wake as "wake" {
        /// Whether the relay LISTENs for the NOTIFY of each append, on a separate connection (PostgreSQL).
        notify: bool = "true";
        /// How often the relay polls; a fifth as often while it LISTENs and has found no row for a
        /// minute; 0s never. One of `notify` and `poll_interval` must be on; the poll also finds
        /// rows whose NOTIFY was lost with a broken connection.
        poll_interval: Duration = "1s", in 0s..=10m;
    }
}

section! {
    /// `[retention]`: how long rows are kept.
    #[derive(Copy)]
    pub struct Retention as "retention" {
        /// How long sent and discarded rows are kept.
        sent: Duration = "1d", in 0s..=3650d;
        /// How often older rows are deleted.
        prune_interval: Duration = "10s", in 1s..=1d;
        /// Maximum number of rows per DELETE.
        chunk: u32 = "5000", in 1..=100_000;
    }
}

section! {
    /// `[retry]`: how events that a destination other than Kafka has not taken are tried again. What befalls every
    /// event of a destination is an outage, and spends no attempt.
    #[derive(Copy)]
    pub struct Retry as "retry" {
        /// Attempts of an event, the first included; then its row is parked until an operator decides.
        attempts_max: u32 = "15", in 1..=1_000;
        /// The delay before the second attempt; it doubles each time, with jitter in its upper half.
        delay_min: Duration = "1s", in 10ms..=1h;
        /// The longest delay between two attempts.
        delay_max: Duration = "10m", in 10ms..=1d;
    }
}

section! {
    /// `[[routes]]`: which events go where. The first route that matches an event sets its
    /// destination; unmatched events are parked. Without routes, all go to Kafka.
    pub struct Route as "routes" {
        /// Event types: a pattern in which `*` matches any number of characters.
        event_type: String = "*";
        /// Aggregate types, as a pattern.
        aggregate_type: String = "*";
        /// The destination: `kafka`, or the name of a destination in the configuration or the
        /// program.
        to: String = required;
    }
}

section! {
    /// `[limits]`: what bounds waiting.
    #[derive(Copy)]
    pub struct Limits as "limits" {
        /// Longest delay between attempts to reach a database or Kafka that is down, and between
        /// probes of a destination that is down, even if it asks for more.
        outage_delay_max: Duration = "10s", in 100ms..=10m;
        /// How long a shutdown waits for the batch and the calls in flight. An interrupted call is
        /// repeated with the same event id.
        shutdown_deadline: Duration = "10s", in 100ms..=10m;
    }
}

impl Config {
    /// A configuration with all defaults, and a topic per aggregate type, for embedding and tests. Every
    /// field is public.
    pub fn new(bootstrap: impl Into<String>, url: impl Into<Secret>) -> Self {
        let mut config = Self::default();
        config.kafka.bootstrap = bootstrap.into();
        config.kafka.topic = "{aggregate_type}".into();
        config.database.url = url.into();
        config
    }

    /// Reads `path` (nothing, if `None`), lays `env` over it (names `OUTBOX_<SECTION>__<KEY>`; pass
    /// [`std::env::vars`]), and `overrides` over that; then refuses what does not go together.
    ///
    /// # Errors
    /// Every unknown key and every value of the wrong form at once, or every unsafe combination,
    /// one sentence each. Doubtful combinations are no error: see [`Config::validate`].
    pub fn load(
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        TABLE.load(
            path,
            env,
            overrides,
            |config: &mut Self, _, noticed| config.noticed = noticed,
            Self::validate,
        )
    }
}

impl Kafka {
    /// TLS, SASL and `[kafka.raw]` under librdkafka's names, **secrets in clear**: for the client only.
    pub(crate) fn client_settings(&self) -> Properties {
        let mut all = self.security.client_settings();
        all.extend(self.raw.passed(Program::Relay));
        all.into()
    }
}
