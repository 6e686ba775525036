//! What the client is told: settings that the promise rests on, defaults, and the users' own.

use std::time::Duration;

use rdkafka::{ClientConfig, config::RDKafkaLogLevel};

use crate::{broker::BrokerError, excerpt::Excerpts, properties::Properties, recreated};

/// How members of the group share partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// The members decide, with the cooperative-sticky assignor.
    #[default]
    Classic,
    /// The brokers decide (KIP-848; Kafka 4.0 and later).
    Consumer,
}

/// Where Kafka is, and as whom to read.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// `host:port`, several separated by commas.
    pub bootstrap: String,
    /// The consumer group.
    pub group: String,
    /// Topics by their full names.
    pub topics: Vec<String>,
    /// Static membership: the same name after a restart takes the same partitions back.
    pub instance_id: Option<String>,
    /// The group protocol.
    pub protocol: Protocol,
    /// After this long without a heartbeat a member is dead. With [`Protocol::Consumer`] the brokers
    /// set it.
    pub session_timeout: Duration,
    /// After this long without a poll a member leaves the group; also how long a rebalance waits for
    /// partitions to be let go. At least `session_timeout`.
    pub max_poll_interval: Duration,
    /// Which records are kept in part.
    pub excerpts: Excerpts,
    /// Further settings.
    pub properties: Properties,
}

/// How members of a group with the classic protocol share partitions.
pub(crate) const ASSIGNOR: &str = "cooperative-sticky";

/// What no user may change, because a promise rests on it.
const FIXED: &[(&str, &str)] = &[
    // Only the watermark is committed, and only by us.
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // A lost offset stops the partition; it never skips records.
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    ("check.crcs", "true"),
    ("allow.auto.create.topics", "false"),
    // The end of a partition tells the position behind transaction markers.
    ("enable.partition.eof", "true"),
];

/// What users may change.
const DEFAULTS: &[(&str, &str)] = &[
    // Both bound the memory of what was fetched and not yet handed out: of a partition that is held back
    // by itself, of all others together. A fetch comes on top.
    ("queued.min.messages", "1000"),
    ("queued.max.messages.kbytes", "2048"),
    // 500 ms by default. While a broker waits for the next record of idle partitions, nothing else is
    // fetched from it: not what was just resumed either.
    ("fetch.wait.max.ms", "50"),
    // 1 MiB by default. Going on after a pause throws away what was fetched and not yet polled, up to
    // this much of a partition.
    ("fetch.message.max.bytes", "524288"),
    // 50 MiB by default. Whatever one answer has is decompressed at once, and gzip makes a thousand bytes of
    // one; sixteen partitions of a broker fill it.
    ("fetch.max.bytes", "8388608"),
    // 1000 ms by default: a pause after every full queue, and one fetch of small records fills it.
    ("fetch.queue.backoff.ms", "2"),
    // 5 min by default: until then nobody notices that partitions were added, or are gone.
    ("topic.metadata.refresh.interval.ms", "15000"),
];

/// Heartbeats go out about this often within a session, but not more often than ten a second.
const HEARTBEATS_PER_SESSION: u32 = 15;

impl KafkaSettings {
    pub(crate) fn client_config(&self) -> Result<ClientConfig, BrokerError> {
        let fixed = FIXED.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let fixed: Vec<_> = fixed.chain(self.own()).collect();
        let is_fixed = |name: &&str| fixed.iter().any(|(fixed, _)| fixed == name);
        if let Some(name) = self.properties.names().find(is_fixed) {
            return Err(BrokerError(format!(
                "the Kafka property `{name}` is set by the runtime; remove it"
            )));
        }
        let mut config = self.properties.client_config(RDKafkaLogLevel::Notice, DEFAULTS);
        for (name, value) in fixed {
            config.set(name, value);
        }
        Ok(config)
    }

    /// What the thread that owns the consumer needs to hear beside what is asked for.
    pub(crate) fn debug(&self) -> String {
        let asked = self.properties.value("debug");
        let asked = asked.map(|value| format!("{value},")).unwrap_or_default();
        format!("{asked}{}", recreated::DEBUG)
    }

    fn own(&self) -> Vec<(&'static str, String)> {
        let millis = |time: Duration| time.as_millis().to_string();
        let mut own = vec![
            ("bootstrap.servers", self.bootstrap.clone()),
            ("group.id", self.group.clone()),
            // Unique per client: shared ones have sent an assignor into an endless loop.
            ("client.id", format!("inbox-{}-{}", self.group, uuid::Uuid::now_v7())),
            ("max.poll.interval.ms", millis(self.max_poll_interval)),
        ];
        if let Some(id) = &self.instance_id {
            own.push(("group.instance.id", id.clone()));
        }
        match self.protocol {
            Protocol::Classic => {
                let heartbeat = (self.session_timeout / HEARTBEATS_PER_SESSION)
                    .clamp(Duration::from_millis(100), Duration::from_secs(3));
                own.push(("group.protocol", "classic".into()));
                own.push(("partition.assignment.strategy", ASSIGNOR.into()));
                own.push(("session.timeout.ms", millis(self.session_timeout)));
                own.push(("heartbeat.interval.ms", millis(heartbeat)));
            }
            // Time-outs and assignor are the brokers' here; the client refuses to be told.
            Protocol::Consumer => own.push(("group.protocol", "consumer".into())),
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, ffi::CString};

    use service_kit::properties::{GROUPS, Group};

    use crate::ffi;

    /// What an update of librdkafka adds is refused until somebody has looked at it.
    #[test]
    fn every_setting_of_the_library_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("properties");
        ffi::write_properties(&CString::new(path.to_str().unwrap()).unwrap());
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().filter(|line| line.contains(" | "));
        let names = rows.filter_map(|line| line.split('|').next()).map(str::trim);
        let there: BTreeSet<&str> = names.filter(|name| *name != "Property").collect();
        assert!(there.len() > 150, "{text}");
        let known: BTreeSet<&str> = GROUPS.iter().flat_map(Group::names).collect();
        let new: Vec<_> = there.difference(&known).collect();
        let gone: Vec<_> = known.difference(&there).collect();
        assert!(new.is_empty() && gone.is_empty(), "not known: {new:?}, not there: {gone:?}");
    }
}
