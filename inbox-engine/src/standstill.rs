//! Why a partition stands still, by name. The operations page has one section for each.

use std::fmt;

use crate::NextOffset;

/// Why a partition does not move.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Standstill {
    /// The brokers do not let the user read the topic, or in the group.
    Forbidden(String),
    /// Another live process uses the same static instance id.
    ForeignOwner(String),
    /// A handler blocks its thread: it has not come back though its time is over.
    HandlerBlocks(String),
    /// The database has no row for the partition, and the group's offset was committed by this very
    /// consumer: the database has lost its history, or is another one.
    HistoryLost(String),
    /// The inbox holds event ids of another scope than the configuration makes.
    IdScope(String),
    /// What is settled or parked is in lanes or queues that this build and configuration cannot follow.
    LaneRule(String),
    /// The log was seen to end below the watermark, has grown since, and nothing shows that it is the same.
    LogEndedBelow(String),
    /// The log ends below the watermark: records that were handled are gone from it.
    LogEndsBelow(String),
    /// The log begins above the watermark: records that were never handled are gone.
    LogStartsAbove(String),
    /// There are records to be read, or events to be settled, and neither happens, for no reason that is known.
    NoProgress(String),
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
    /// The topic is not there, or has fewer partitions than this one's number.
    TopicMissing(String),
    /// The topic was deleted and created again: its offsets mean other records now.
    TopicRecreated(String),
    /// The database has not confirmed the watermark for long, nor refused it.
    Unconfirmed(String),
    /// A batch of the log cannot be read, however often: it is damaged, or too large once it is decompressed.
    UnreadableBatch(String),
    /// A transaction of a producer is open: nothing behind its first record can be read.
    UpstreamTransaction(String),
}

/// Why a partition waits for a person although a take-over would see nothing of it, and what shows that one
/// has acted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Why.
    pub reason: Standstill,
    /// No take-over succeeds before the database's watermark is beyond this one: only a `skip` moves it.
    pub watermark: NextOffset,
}

impl Standstill {
    /// The name in metrics, logs, `status` and the operations page.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forbidden(_) => "forbidden",
            Self::ForeignOwner(_) => "foreign_owner",
            Self::HandlerBlocks(_) => "handler_blocks",
            Self::HistoryLost(_) => "history_lost",
            Self::IdScope(_) => "id_scope",
            Self::LaneRule(_) => "lane_rule",
            Self::LogEndedBelow(_) => "log_ended_below",
            Self::LogEndsBelow(_) => "log_ends_below",
            Self::LogStartsAbove(_) => "log_starts_above",
            Self::NoProgress(_) => "no_progress",
            Self::OffsetGone(_) => "offset_gone",
            Self::Outage(_) => "outage",
            Self::ParkedLimit(_) => "parked_limit",
            Self::Reused(_) => "reused",
            Self::Rewritten(_) => "rewritten",
            Self::Schema(_) => "schema",
            Self::StartUndecided(_) => "start_undecided",
            Self::TakingOver => "taking_over",
            Self::TopicMissing(_) => "topic_missing",
            Self::TopicRecreated(_) => "topic_recreated",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::UnreadableBatch(_) => "unreadable_batch",
            Self::UpstreamTransaction(_) => "upstream_transaction",
        }
    }

    /// Whether a person has to look: it does not pass by itself, or, at the limit on parked events, only
    /// as fast as those succeed.
    pub fn needs_a_person(&self) -> bool {
        match self {
            Self::ForeignOwner(_)
            | Self::LogEndsBelow(_)
            | Self::Outage(_)
            | Self::Schema(_)
            | Self::TakingOver
            | Self::Unconfirmed(_)
            | Self::UpstreamTransaction(_) => false,
            Self::Forbidden(_)
            | Self::HandlerBlocks(_)
            | Self::HistoryLost(_)
            | Self::IdScope(_)
            | Self::LaneRule(_)
            | Self::LogEndedBelow(_)
            | Self::LogStartsAbove(_)
            | Self::NoProgress(_)
            | Self::OffsetGone(_)
            | Self::ParkedLimit(_)
            | Self::Reused(_)
            | Self::Rewritten(_)
            | Self::StartUndecided(_)
            | Self::TopicMissing(_)
            | Self::TopicRecreated(_)
            | Self::UnreadableBatch(_) => true,
        }
    }

    /// Whether it was seen from outside, by clocks and offsets, while the engine knows of no reason: nothing is
    /// stopped for it, and it ends when they show another picture.
    pub fn seen_from_outside(&self) -> bool {
        matches!(
            self,
            Self::Forbidden(_)
                | Self::HandlerBlocks(_)
                | Self::NoProgress(_)
                | Self::TopicMissing(_)
                | Self::Unconfirmed(_)
                | Self::UnreadableBatch(_)
                | Self::UpstreamTransaction(_)
        )
    }

    /// Whether the take-over is tried again: it may pass by itself (another process that crashed a
    /// moment ago, a leader that has not caught up, tables that are being migrated), or a command that
    /// changes the database ends it (`skip`, `retire`), and nobody shall have to start the process again
    /// for that.
    pub fn may_pass(&self) -> bool {
        let by_itself = matches!(
            self,
            Self::ForeignOwner(_)
                | Self::LogEndsBelow(_)
                | Self::OffsetGone(_)
                | Self::Schema(_)
                | Self::TopicMissing(_)
        );
        let by_command = matches!(
            self,
            Self::HistoryLost(_)
                | Self::IdScope(_)
                | Self::LaneRule(_)
                | Self::LogEndedBelow(_)
                | Self::LogStartsAbove(_)
                | Self::Reused(_)
                | Self::Rewritten(_)
                | Self::TopicRecreated(_)
        );
        by_itself || by_command
    }
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(text)
            | Self::ForeignOwner(text)
            | Self::HandlerBlocks(text)
            | Self::HistoryLost(text)
            | Self::IdScope(text)
            | Self::LaneRule(text)
            | Self::LogEndedBelow(text)
            | Self::LogEndsBelow(text)
            | Self::LogStartsAbove(text)
            | Self::NoProgress(text)
            | Self::OffsetGone(text)
            | Self::Outage(text)
            | Self::ParkedLimit(text)
            | Self::Reused(text)
            | Self::Rewritten(text)
            | Self::Schema(text)
            | Self::StartUndecided(text)
            | Self::TopicMissing(text)
            | Self::TopicRecreated(text)
            | Self::Unconfirmed(text)
            | Self::UnreadableBatch(text)
            | Self::UpstreamTransaction(text) => write!(f, "{}: {text}", self.name()),
            Self::TakingOver => f.write_str(self.name()),
        }
    }
}

impl std::error::Error for Standstill {}
