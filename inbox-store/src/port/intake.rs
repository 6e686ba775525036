//! What is asked of the database for events that a caller waits for: they have no log, so their lanes give them their
//! offsets, and have no owner, so a lane is locked by the transaction that moves it.

use std::future::Future;

use inbox_engine::internal::{Epoch, Lane, Offset};
use sqlx::Database;
use uuid::Uuid;

use super::{Owner, Scope, Suspect, TakeOver, TakeOverError};

/// The partition that stands for an intake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntakePartition {
    /// `inbox_consumers.consumer_ref`.
    pub consumer_ref: i64,
    /// `inbox_partitions.partition_ref`.
    pub partition_ref: i64,
    /// Its epoch; whoever corrects it by hand raises it.
    pub epoch: Epoch,
    /// How many lanes it has.
    pub lane_count: u16,
    /// The process that has seen to it last, unless it has said that it ends.
    pub incarnation: Option<Uuid>,
}

impl IntakePartition {
    /// What statements are bound to, as far as is known before its lanes are locked.
    pub fn scope(&self) -> Scope {
        let Self { consumer_ref, partition_ref, epoch, .. } = *self;
        Scope { consumer_ref, partition_ref, epoch }
    }

    /// Where an event is written down before it runs: it has no offset until then, and another one each time that it is
    /// sent. Below every offset, by its id.
    pub fn place_of(id: &[u8; 16]) -> Offset {
        let [high, low] = [0, 8].map(|at| {
            let half: [u8; 8] = std::array::from_fn(|byte| id[at + byte]);
            i64::from_be_bytes(half)
        });
        Offset((high.rotate_left(1) ^ low) | i64::MIN)
    }
}

/// A lane that the open transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockedLane {
    /// Which.
    pub lane: Lane,
    /// The epoch that it may be moved under.
    pub epoch: Epoch,
    /// The last offset that it has settled.
    pub last: Offset,
}

/// Partitions of intakes, and their lanes.
pub trait Intakes: Database {
    /// The partition of an intake, if it is there and can be used as it is. A retired one is not there, and one whose
    /// parked rows have keys of another rule is to be taken over first, which gives them theirs. It is refused for what
    /// a take-over is refused for, as far as that can be without a log and an owner.
    fn intake_partition(
        conn: &mut Self::Connection,
        request: &TakeOver,
    ) -> impl Future<Output = Result<Option<IntakePartition>, TakeOverError>> + Send;
    /// Locks lanes in the open transaction, in ascending order whatever order is asked for, and waits for whoever has
    /// them. What later statements of the transaction see is what those have committed. Each comes with an offset that
    /// it was seen at or beyond, -1 where it was not: a hint, which finds it sooner.
    fn lock_lanes(
        conn: &mut Self::Connection,
        partition_ref: i64,
        lanes: &[(Lane, Offset)],
    ) -> impl Future<Output = Result<Vec<LockedLane>, sqlx::Error>> + Send;
    /// Raises the watermark to behind the last offset of all lanes, and says who has seen to it. What is committed
    /// below that is settled: an offset is given out by the transaction that settles it.
    fn settle_lanes(
        conn: &mut Self::Connection,
        partition_ref: i64,
        owner: &Owner,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// What other processes have written down before they ran it, and have not taken back: they run it, or have ended
    /// with it. By their [`IntakePartition::place_of`].
    fn unfinished(
        conn: &mut Self::Connection,
        partition_ref: i64,
        incarnation: Uuid,
    ) -> impl Future<Output = Result<Vec<Suspect>, sqlx::Error>> + Send;
    /// Forgets all of that.
    fn forget_unfinished(
        conn: &mut Self::Connection,
        partition_ref: i64,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}
