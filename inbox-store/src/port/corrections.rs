//! What operators ask of the database about partitions: begun, skipped or retired by hand.

use std::future::Future;

use inbox_engine::internal::{NextOffset, Offset};
use outbox_core::{IdScope, TopicPartition};
use sqlx::Database;

/// One row of `inbox_partitions`, for commands that change it.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionRecord {
    /// Which.
    pub partition_ref: i64,
    /// The topic's id; all zero: not known.
    pub topic_id: [u8; 16],
    /// Partition.
    pub partition: i32,
    /// Next offset to settle.
    pub watermark: i64,
    /// The offset after the furthest one that a lane has settled, at least the watermark.
    pub reached: i64,
    /// The owner's name, if owned.
    pub owner: Option<String>,
    /// Seconds since the owner was last seen, by the database's clock.
    pub owner_seen_seconds: Option<f64>,
    /// Why it stands still.
    pub standstill: Option<String>,
    /// Parked events.
    pub parked: i64,
    /// Whether it is retired.
    pub retired: bool,
}

/// A change of one partition's rows by a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Correction {
    /// Which.
    pub partition_ref: i64,
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
    /// Even under an owner that was seen a moment ago.
    pub force: bool,
}

/// Where a partition begins that the database does not know, as a person has decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beginning {
    /// The consumer's name.
    pub consumer: String,
    /// Which partition.
    pub partition: TopicPartition,
    /// The topic's id; all zero: not known.
    pub topic_id: [u8; 16],
    /// How many partitions the topic has.
    pub partitions: i32,
    /// What the configuration wants.
    pub lane_count: u16,
    /// What the configuration wants.
    pub lane_rule: String,
    /// What the configuration wants.
    pub id_scope: IdScope,
    /// Everything below counts as settled.
    pub at: NextOffset,
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
}

/// How a correction ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Corrected {
    /// It is committed.
    Done,
    /// An owner that still runs has the partition; nothing was changed.
    Owned {
        /// Its name.
        owner: String,
        /// Seconds since it was seen.
        seen_seconds: f64,
    },
    /// The row is not as it was looked at: gone, retired, or its watermark is above the offset.
    Changed,
    /// Events are parked there, and nobody said that they may be given up.
    Parked(i64),
}

/// Changes of a partition's rows by a person. Each takes the partition's epoch over, as a take-over
/// does, so that nothing that an owner has under way can commit beside it.
pub trait Corrections: Database {
    /// The rows of a topic.
    fn rows(
        conn: &mut Self::Connection,
        consumer: &str,
        topic: &str,
    ) -> impl Future<Output = Result<Vec<PartitionRecord>, sqlx::Error>> + Send;
    /// Raises watermark and lanes to an offset: what lies below it counts as settled.
    fn skip(
        conn: &mut Self::Connection,
        correction: &Correction,
        to: NextOffset,
    ) -> impl Future<Output = Result<Corrected, sqlx::Error>> + Send;
    /// Has an event that is not settled parked instead of run: the owner takes the partition over once more, and
    /// goes on. [`Corrected::Changed`] when the offset is settled.
    fn doom(
        conn: &mut Self::Connection,
        correction: &Correction,
        offset: Offset,
    ) -> impl Future<Output = Result<Corrected, sqlx::Error>> + Send;
    /// Adds the row of a partition that the database does not know; [`Corrected::Changed`] when it is there by
    /// now.
    fn begin_partition(
        conn: &mut Self::Connection,
        beginning: &Beginning,
    ) -> impl Future<Output = Result<Corrected, sqlx::Error>> + Send;
    /// Gives the rows of a topic that is gone up to retention: nobody takes them over again.
    fn retire(
        conn: &mut Self::Connection,
        correction: &Correction,
        discard_parked: bool,
    ) -> impl Future<Output = Result<Corrected, sqlx::Error>> + Send;
    /// Removes up to `max` parked events of a retired partition, each with its row in the audit;
    /// answers how many.
    fn discard_parked(
        conn: &mut Self::Connection,
        correction: &Correction,
        max: u32,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}
