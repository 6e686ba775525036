//! What can be read off a running consumer: by the HTTP port, and by services that embed it.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use outbox_core::TopicPartition;
use serde::{Deserialize, Serialize};

use super::{
    Counts, exposition,
    meters::{Live, Meters},
};

/// The loop tells how things are once a second: after so long without a word it is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Brokers are asked every 5 s, and answer at once.
const BROKERS_SILENCE_MAX: Duration = Duration::from_secs(10);

/// Everything that can be read off a consumer while it runs. Cheap to clone; reading takes no lock that
/// the consumer's work waits for, and asks neither the database nor Kafka.
///
/// ```no_run
/// # fn mounted(readings: inbox_consumer::telemetry::Readings) -> (u16, String) {
/// // In a service with a port of its own: set `http.listen` to "off" and mount these.
/// let metrics: String = readings.prometheus();
/// let status = if readings.readiness().ready { 200 } else { 503 };
/// # (status, metrics)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Readings(pub(super) Arc<Meters>);

/// A partition that this process has, as of the last second.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct PartitionReading {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its number.
    pub partition: i32,
    /// Everything below this offset is settled; unknown before it is taken over.
    pub watermark: Option<i64>,
    /// What Kafka acknowledged in this process.
    pub committed: Option<i64>,
    /// The next offset to arrive.
    pub position: Option<i64>,
    /// The offset behind the last record, as of the client's last fetch.
    pub log_end: Option<i64>,
    /// Events in memory that are not settled.
    pub waiting: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Open transactions.
    pub open: u64,
    /// Whether fetching is paused.
    pub paused: bool,
    /// Since when the database has not confirmed the watermark.
    #[serde(skip)]
    pub confirmed_at: Option<Instant>,
    /// Why it stands still, if it does.
    pub standstill: Option<Reason>,
    /// For how long the event that is at work longest has been the first of its lane.
    pub oldest: Duration,
    /// The lanes whose first event has been that for some seconds.
    pub held: Vec<HeldLane>,
}

/// A lane whose first event has been that for some seconds: what comes behind it waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HeldLane {
    /// The lane's number in its partition.
    pub lane: u16,
    /// The event's offset.
    pub offset: i64,
    /// Its type; `?` if the record could not be read.
    pub event_type: String,
    /// Its id; `?` if the record could not be read.
    pub event_id: String,
    /// Its aggregate, type and id; `?` if the record could not be read.
    pub aggregate: String,
    /// The attempt that is under way, or waits for its time; from 1.
    pub attempt: u32,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// What the last attempt ended with, if there was one.
    pub error: Option<String>,
}

/// Why something does not move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// The name that metrics, `status` and the operations page use.
    pub name: &'static str,
    /// For people.
    pub sentence: String,
}

/// Whether a consumer is ready, and if not, why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Readiness {
    /// It has joined the group, and every partition that it was given moves.
    pub ready: bool,
    /// Partitions that it was given.
    pub partitions: usize,
    /// What keeps it from being ready.
    pub reasons: Vec<Unready>,
    /// Lanes whose first event has been that for some seconds. The others go on, so that the consumer is ready.
    pub held: Vec<Held>,
}

/// A lane that is held, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Held {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The lane, and its first event.
    #[serde(flatten)]
    pub lane: HeldLane,
    /// For people.
    pub sentence: String,
}

/// One thing that keeps a consumer from being ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Unready {
    /// The topic, when it is about one, or about a partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<Arc<str>>,
    /// The partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Name of the standstill (of a topic: `topic_missing`), or `starting`, `joining`, `no_broker`, `stuck`, `ending`, `ended`.
    pub reason: &'static str,
    /// For people.
    pub sentence: String,
}

impl PartitionReading {
    pub(super) fn place(&self) -> TopicPartition {
        TopicPartition { topic: Arc::clone(&self.topic), partition: self.partition }
    }

    /// Offsets from the watermark to the end of the log.
    pub fn lag(&self) -> Option<u64> {
        let lag = self.log_end?.saturating_sub(self.watermark?);
        Some(u64::try_from(lag).unwrap_or(0))
    }
}

impl HeldLane {
    /// As the database keeps them for `status`.
    pub(crate) fn text(lanes: &[Self]) -> String {
        serde_json::to_string(lanes).unwrap_or_default()
    }

    /// What the database kept; nothing when another build wrote it.
    #[doc(hidden)]
    pub fn read(text: &str) -> Vec<Self> {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// What holds the lane, for people.
    #[doc(hidden)]
    pub fn sentence(&self) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let Self { lane, offset, event_type, event_id, aggregate, attempt, since_ms, error } = self;
        let seconds = now.saturating_sub(*since_ms).max(0) / 1_000;
        let why = match error {
            Some(error) => format!("the last one ended with: {error}"),
            None => "it has not ended yet".to_owned(),
        };
        format!(
            "lane {lane} is held by `{event_type}` {event_id} of {aggregate} at offset {offset} for {seconds} s, \
             attempt {attempt}; {why}"
        )
    }
}

fn held(partition: &PartitionReading) -> impl Iterator<Item = Held> {
    partition.held.iter().map(|lane| Held {
        topic: Arc::clone(&partition.topic),
        partition: partition.partition,
        lane: lane.clone(),
        sentence: lane.sentence(),
    })
}

impl Readings {
    /// Of what a consumer measures.
    #[doc(hidden)]
    pub fn of(meters: &Arc<Meters>) -> Self {
        Self(Arc::clone(meters))
    }

    /// The consumer's name.
    pub fn consumer(&self) -> &str {
        &self.0.consumer
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    /// The partitions that it has, as of the last second.
    pub fn partitions(&self) -> Arc<[PartitionReading]> {
        self.0.live().partitions
    }

    /// Where the HTTP port listens, once it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.0.http.get().copied()
    }

    /// Every metric in Prometheus' text format. For several consumers of one process:
    /// [`prometheus`](super::prometheus).
    pub fn prometheus(&self) -> String {
        exposition::prometheus(std::slice::from_ref(self))
    }

    /// Whether the consumer's loop does its rounds; false only when starting the process anew is
    /// right. Before it runs and after it ended there is nothing to restart.
    pub fn live(&self) -> bool {
        stuck(&self.0, &self.0.live()).is_none()
    }

    /// Whether it is ready: it has joined the group, and every partition that it was given moves. A
    /// member without any partition is ready.
    pub fn readiness(&self) -> Readiness {
        Self::readiness_of(&self.0, &self.0.live())
    }

    pub(super) fn readiness_of(meters: &Meters, live: &Live) -> Readiness {
        let whole = |reason, sentence: &str| {
            vec![Unready { topic: None, partition: None, reason, sentence: sentence.to_owned() }]
        };
        let reasons = if live.ended {
            whole("ended", "the consumer has ended")
        } else if live.at.is_none() {
            whole("starting", "the consumer has not begun to run")
        } else if live.ending {
            whole(
                "ending",
                "the consumer is shutting down: what runs is finished, nothing new begins",
            )
        } else if let Some(sentence) = stuck(meters, live) {
            whole("stuck", &sentence)
        } else if !live.joined && !live.topics_missing.is_empty() {
            // A group whose topics are not there gives nothing.
            missing_topics(live).collect()
        } else if !live.joined {
            whole(
                "joining",
                "the consumer has not joined its group yet, or was expelled from it; is Kafka reachable?",
            )
        } else if no_broker(live) {
            whole(
                "no_broker",
                &format!(
                    "no broker has answered for {:.0?}: what was fetched is finished, and nothing else arrives; is Kafka \
                     reachable?",
                    live.brokers_silence
                ),
            )
        } else {
            live.partitions.iter().filter_map(unready).chain(missing_topics(live)).collect()
        };
        let held = live.partitions.iter().flat_map(held).collect();
        Readiness { ready: reasons.is_empty(), partitions: live.partitions.len(), reasons, held }
    }
}

/// Why the process is of no use any more.
pub(super) fn stuck(meters: &Meters, live: &Live) -> Option<String> {
    let silence = live.at?.elapsed();
    if silence > SILENCE_MAX {
        let longest = meters.calls.longest(Instant::now());
        let why = longest
            .unwrap_or_else(|| "the machine is starved, or a handler blocks its thread".to_owned());
        return Some(format!("the consumer's loop has not come round for {silence:.0?}: {why}"));
    }
    (live.silence > SILENCE_MAX).then(|| {
        format!("the Kafka client has not been polled for {:.0?}: its thread hangs", live.silence)
    })
}

/// Whether Kafka is not there.
pub(super) fn no_broker(live: &Live) -> bool {
    live.brokers_silence > BROKERS_SILENCE_MAX
}

/// Topics that are not there and of which this process has no partition that says so.
fn missing_topics(live: &Live) -> impl Iterator<Item = Unready> {
    let told = |topic: &Arc<str>| live.partitions.iter().any(|partition| partition.topic == *topic);
    live.topics_missing.iter().filter(move |topic| !told(topic)).map(|topic| Unready {
        topic: Some(Arc::clone(topic)),
        partition: None,
        reason: "topic_missing",
        sentence: inbox_kafka::missing(topic),
    })
}

fn unready(partition: &PartitionReading) -> Option<Unready> {
    let Reason { name, sentence } = partition.standstill.clone()?;
    let topic = Some(Arc::clone(&partition.topic));
    Some(Unready { topic, partition: Some(partition.partition), reason: name, sentence })
}
