//! Why a partition stands still, by name. The operations page has one section for each.

use std::fmt;

/// Why a partition does not move.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Standstill {
    /// Another live process uses the same static instance id.
    ForeignOwner(String),
    /// The topology of lanes that the configuration wants differs from the one in the database.
    LaneRule(String),
    /// The log begins above the watermark: records that were never handled are gone.
    LogStartsAbove(String),
    /// The database is not there, or refuses work; the text is its last error.
    Outage(String),
    /// A record was read at an offset that an earlier record had, and its id was never seen.
    Reused(String),
    /// A record has a newer leader epoch than its lane at an offset that is settled: the log was
    /// truncated and written again.
    Rewritten(String),
    /// The configuration says `start = "error"` and there is no history.
    StartUndecided(String),
    /// The epoch is being taken over.
    TakingOver,
    /// The topic was deleted and created again: its offsets mean other records now.
    TopicRecreated(String),
}

impl Standstill {
    /// The name in metrics, logs, `status` and the operations page.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ForeignOwner(_) => "foreign_owner",
            Self::LaneRule(_) => "lane_rule",
            Self::LogStartsAbove(_) => "log_starts_above",
            Self::Outage(_) => "outage",
            Self::Reused(_) => "reused",
            Self::Rewritten(_) => "rewritten",
            Self::StartUndecided(_) => "start_undecided",
            Self::TakingOver => "taking_over",
            Self::TopicRecreated(_) => "topic_recreated",
        }
    }

    /// Whether only a person can end it.
    pub fn needs_a_person(&self) -> bool {
        !matches!(self, Self::Outage(_) | Self::TakingOver)
    }
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignOwner(text)
            | Self::LaneRule(text)
            | Self::LogStartsAbove(text)
            | Self::Outage(text)
            | Self::Reused(text)
            | Self::Rewritten(text)
            | Self::StartUndecided(text)
            | Self::TopicRecreated(text) => write!(f, "{}: {text}", self.name()),
            Self::TakingOver => f.write_str(self.name()),
        }
    }
}

impl std::error::Error for Standstill {}
