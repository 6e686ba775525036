//! Why a partition stands still, by name. The operations page has one section for each.

use std::fmt;

/// Why a partition does not move.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Standstill {
    /// Another live process uses the same static instance id.
    ForeignOwner(String),
    /// What is settled or parked is in lanes or queues that this build and configuration cannot follow.
    LaneRule(String),
    /// The log ends below the watermark: records that were handled are gone from it.
    LogEndsBelow(String),
    /// The log begins above the watermark: records that were never handled are gone.
    LogStartsAbove(String),
    /// The client says, again and again, that the log does not have the offset to read, although the
    /// broker says that it does: the log was truncated and written again.
    OffsetGone(String),
    /// The database is not there, or refuses work; the text is its last error.
    Outage(String),
    /// More events would be parked than may be: live transactions wait, releases go on. It passes when
    /// there is room again.
    ParkedLimit(String),
    /// A record was read at an offset that an earlier record had, and its id was never seen.
    Reused(String),
    /// A record has a newer leader epoch than its lane at an offset that is settled: the log was
    /// truncated and written again.
    Rewritten(String),
    /// The tables are of a version that this build cannot work with: somebody migrated them, or the
    /// database went back in time.
    Schema(String),
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
            Self::LogEndsBelow(_) => "log_ends_below",
            Self::LogStartsAbove(_) => "log_starts_above",
            Self::OffsetGone(_) => "offset_gone",
            Self::Outage(_) => "outage",
            Self::ParkedLimit(_) => "parked_limit",
            Self::Reused(_) => "reused",
            Self::Rewritten(_) => "rewritten",
            Self::Schema(_) => "schema",
            Self::StartUndecided(_) => "start_undecided",
            Self::TakingOver => "taking_over",
            Self::TopicRecreated(_) => "topic_recreated",
        }
    }

    /// Whether a person has to look: it does not pass by itself, or, at the limit on parked events, only
    /// as fast as those succeed.
    pub fn needs_a_person(&self) -> bool {
        match self {
            Self::ForeignOwner(_)
            | Self::LogEndsBelow(_)
            | Self::OffsetGone(_)
            | Self::Outage(_)
            | Self::Schema(_)
            | Self::TakingOver => false,
            Self::LaneRule(_)
            | Self::LogStartsAbove(_)
            | Self::ParkedLimit(_)
            | Self::Reused(_)
            | Self::Rewritten(_)
            | Self::StartUndecided(_)
            | Self::TopicRecreated(_) => true,
        }
    }

    /// Whether the take-over is tried again: it may pass by itself (another process that crashed a
    /// moment ago, a leader that has not caught up, tables that are being migrated), or a command that
    /// changes the database ends it (`skip`, `retire`), and nobody shall have to start the process again
    /// for that.
    pub fn may_pass(&self) -> bool {
        let by_itself = matches!(
            self,
            Self::ForeignOwner(_) | Self::LogEndsBelow(_) | Self::OffsetGone(_) | Self::Schema(_)
        );
        by_itself
            || matches!(self, Self::LaneRule(_) | Self::LogStartsAbove(_) | Self::TopicRecreated(_))
    }
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignOwner(text)
            | Self::LaneRule(text)
            | Self::LogEndsBelow(text)
            | Self::LogStartsAbove(text)
            | Self::OffsetGone(text)
            | Self::Outage(text)
            | Self::ParkedLimit(text)
            | Self::Reused(text)
            | Self::Rewritten(text)
            | Self::Schema(text)
            | Self::StartUndecided(text)
            | Self::TopicRecreated(text) => write!(f, "{}: {text}", self.name()),
            Self::TakingOver => f.write_str(self.name()),
        }
    }
}

impl std::error::Error for Standstill {}
