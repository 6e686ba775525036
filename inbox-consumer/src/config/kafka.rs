//! `[consumer]` and `[kafka]`: who a consumer is, and what it reads.

use std::time::Duration;

use service_kit::{Raw, Security, choice, properties::Program, section};

section! {
    /// `[consumer]`: the name that dedup is scoped to.
    pub struct Identity as "consumer" {
        /// The name that dedup is scoped to: two deployments with one name share their inbox. Letters, digits, `.`,
        /// `_` and `-`, at most 120.
        name: String = required;
        /// Static membership: a name that only this process uses. A process that is restarted under it takes its
        /// partitions back at once; one that is removed keeps them until the session timeout.
        instance_id: Option<String>;
    }
}

section! {
    /// `[kafka]`: the cluster, the topics, and how they are read.
    pub struct Kafka as "kafka" {
        /// The brokers: `host:port`, separated by commas. Neither they nor topics are wanted where events come by HTTP
        /// alone (`intake.listen`).
        bootstrap: String = required;
        /// The topics, by their full names.
        topics: Vec<String> = required;
        /// The group; the inbox is not bound to it.
        group: Option<String>, shown "`consumer.name`";
        /// Where a consumer begins that neither the database nor the group has an offset for: at the beginning of
        /// the log, at its end, or not at all until a person decides. A partition that is added later begins at its
        /// beginning.
        start: Start;
        /// The group protocol: `classic` (cooperative-sticky) or `consumer` (KIP-848, Kafka 4).
        protocol: Protocol;
        /// A process that is silent for so long loses its partitions: this is how long they stand still after a
        /// crash, unless `consumer.instance_id` is set. With protocol `consumer` the broker sets it (45s), and this
        /// value serves only to check the limits below against it. `limits.drain_deadline` is at most a third of
        /// it.
        session_timeout: Duration = "10s", in 1s..=5m, shown "`limits.drain_deadline` × 3, at least 10s";
        /// TLS and SASL, passed through to the client.
        ..flatten security: Security;
        /// Further settings by librdkafka's names; which may be set is said below.
        raw: Raw;
    }
}

choice! {
    /// Where a consumer begins that neither database nor group know.
    pub enum Start {
        /// At the beginning of the log.
        Earliest = "earliest",
        /// At its end.
        Latest = "latest",
        /// Nowhere: the partition stands still until a person decides.
        Error = "error",
    }
}

choice! {
    /// The protocol by which the group divides partitions.
    pub enum Protocol {
        /// Members divide them (cooperative-sticky).
        Classic = "classic",
        /// The broker divides them (KIP-848, Kafka 4).
        Consumer = "consumer",
    }
}

impl From<Start> for inbox_engine::internal::Start {
    fn from(start: Start) -> Self {
        match start {
            Start::Earliest => Self::Earliest,
            Start::Latest => Self::Latest,
            Start::Error => Self::Error,
        }
    }
}

impl Kafka {
    /// TLS, SASL and `[kafka.raw]` under librdkafka's names, **secrets in clear**: for the client
    /// only. What the runtime itself sets (group, offsets, session) is not among them.
    pub fn client_settings(&self) -> Vec<(String, String)> {
        let mut all = self.security.client_settings();
        all.extend(self.raw.passed(Program::Consumer));
        all
    }
}
