//! A partition as it is read off a running consumer, and what holds its lanes.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use outbox_core::TopicPartition;
use serde::{Deserialize, Serialize};

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

impl PartitionReading {
    /// Of the partition that stands for an intake: it has no log.
    pub(crate) fn of_intake(place: &TopicPartition, standstill: Option<Reason>) -> Self {
        Self {
            topic: Arc::clone(&place.topic),
            partition: place.partition,
            watermark: None,
            committed: None,
            position: None,
            log_end: None,
            waiting: 0,
            bytes: 0,
            open: 0,
            paused: false,
            confirmed_at: None,
            standstill,
            oldest: Duration::ZERO,
            held: Vec::new(),
        }
    }

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
            Some(error) => format!("the last attempt failed: {error}"),
            None => "it has not finished yet".to_owned(),
        };
        format!(
            "lane {lane} is held up by `{event_type}` {event_id} of {aggregate} at offset \
             {offset} for {seconds} s, attempt {attempt}; {why}"
        )
    }
}
