//! What can be read off a running consumer: by the HTTP port, and by services that embed it.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    Counts,
    meters::{Live, Meters},
    partition_reading::{HeldLane, PartitionReading, Reason},
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
    /// Name of the standstill (of a topic also `topic_missing`, `topic_unassigned` and `forbidden`, which a group can
    /// be, too), or `starting`, `joining`, `no_broker`, `stuck`, `ending`, `ended`.
    pub reason: &'static str,
    /// For people.
    pub sentence: String,
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
            whole("starting", "the consumer has not started yet")
        } else if live.ending {
            whole(
                "ending",
                "the consumer is shutting down: running transactions are finished, nothing new \
                 starts",
            )
        } else if let Some(sentence) = stuck(meters, live) {
            whole("stuck", &sentence)
        } else if !live.joined && (!live.topics_missing.is_empty() || !live.forbidden.is_empty()) {
            // A group whose topics are not there gives nothing, and one that is forbidden neither.
            of_the_group(live).collect()
        } else if !live.joined {
            whole(
                "joining",
                "the consumer has not joined its group yet, or was expelled from it; check that \
                 Kafka is reachable",
            )
        } else if no_broker(live) {
            whole(
                "no_broker",
                &format!(
                    "no broker has answered for {:.0?}: fetched events are finished, and nothing \
                     else arrives; check that Kafka is reachable",
                    live.brokers_silence
                ),
            )
        } else {
            live.partitions.iter().filter_map(unready).chain(of_the_group(live)).collect()
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
        let why = longest.unwrap_or_else(|| {
            "the machine is overloaded, or a handler blocks its thread".to_owned()
        });
        return Some(format!("the consumer's loop has been blocked for {silence:.0?}: {why}"));
    }
    (live.silence > SILENCE_MAX).then(|| {
        format!("the Kafka client has not been polled for {:.0?}: its thread hangs", live.silence)
    })
}

/// Whether Kafka is not there.
pub(super) fn no_broker(live: &Live) -> bool {
    live.brokers_silence > BROKERS_SILENCE_MAX
}

/// What is wrong with topics of which this process has no partition that says so, and with the group.
pub(crate) fn of_the_group(live: &Live) -> impl Iterator<Item = Unready> {
    let told = |topic: &Arc<str>| live.partitions.iter().any(|partition| partition.topic == *topic);
    let of = |topic: &Arc<str>, reason, sentence| Unready {
        topic: Some(Arc::clone(topic)),
        partition: None,
        reason,
        sentence,
    };
    let missing = live.topics_missing.iter().filter(move |topic| !told(topic));
    let missing =
        missing.map(move |topic| of(topic, "topic_missing", kafka_kit::internal::missing(topic)));
    let unassigned = live.topics_unassigned.iter().map(move |topic| {
        let sentence = format!(
            "no member of the group was given topic {topic}: its records wait; this member \
             rejoins the group, within a minute"
        );
        of(topic, "topic_unassigned", sentence)
    });
    let forbidden =
        live.forbidden.iter().filter(move |it| it.resource == "group" || !told(&it.name));
    let forbidden = forbidden.map(move |it| {
        let topic = (it.resource == "topic").then(|| Arc::clone(&it.name));
        Unready { topic, partition: None, reason: "forbidden", sentence: it.to_string() }
    });
    missing.chain(unassigned).chain(forbidden)
}

fn unready(partition: &PartitionReading) -> Option<Unready> {
    let Reason { name, sentence } = partition.standstill.clone()?;
    let topic = Some(Arc::clone(&partition.topic));
    Some(Unready { topic, partition: Some(partition.partition), reason: name, sentence })
}
