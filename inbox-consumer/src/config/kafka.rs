//! `[consumer]` and `[kafka]`: who a consumer is, and what it reads.

use std::time::Duration;

use service_kit::{Raw, Security, choice, properties::Program, section};

section! {
    /// `[consumer]`: the name that dedup is scoped to.
    pub struct Identity as "consumer" {
        /// The consumer's name, which scopes deduplication: two deployments with one name share
        /// their inbox. Letters, digits, `.`, `_` and `-`, at most 120.
        name: String = required;
        /// Static membership: a name unique to this process. A process restarted under it gets its
        /// partitions back at once; after a removed one, they stay assigned until the session
        /// timeout.
        instance_id: Option<String>;
    }
}

section! {
    /// `[kafka]`: the cluster, the topics, and how they are read.
    pub struct Kafka as "kafka" {
        /// The brokers: `host:port`, separated by commas. Brokers and topics are not needed if
        /// events come by HTTP only (`intake.listen`).
        bootstrap: String = required;
        /// The topics, by their full names.
        topics: Vec<String> = required;
        /// The consumer group. The inbox does not depend on it.
        group: Option<String>, shown "`consumer.name`";
        /// Where a consumer starts if neither the database nor the group has an offset: at the
        /// beginning of the log, at its end, or not at all until an operator decides. Partitions
        /// added later start at their beginning.
        start: Start;
        /// The group protocol: `classic` (cooperative-sticky) or `consumer` (KIP-848, Kafka 4).
        protocol: Protocol;
        /// A process that is silent for this long loses its partitions, so this is how long they
        /// stall after a crash, unless `consumer.instance_id` is set. With protocol `consumer` the
        /// broker sets it (45s), and this value only validates the limits below.
        /// `limits.drain_deadline` is at most a third of it.
        session_timeout: Duration = "10s", in 1s..=5m, shown "`limits.drain_deadline` × 3, at least 10s";
        /// TLS and SASL, passed through to the client.
        ..flatten security: Security;
        /// Further librdkafka settings by their own names; the list of allowed ones is below.
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
        /// Nowhere: the partition stalls until an operator decides.
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
