//! The last version of each aggregate, where a route looks at them: read in the claim, changed in the advance.

use std::{future::Future, time::Duration};

use inbox_engine::internal::{LaneMove, LeaderEpoch, Offset, ParkReason};
use sqlx::Database;

use super::{ClaimRequest, ClaimResult, Scope};

/// An aggregate, and the version of the last of its events that was applied.
pub type LastVersion = ([u8; 16], i64);

/// One aggregate whose version a transaction changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionMove {
    /// Which.
    pub key: [u8; 16],
    /// What its events were judged by: what the claim read, or this process wrote before. `None`: there was no row.
    pub prev: Option<i64>,
    /// What it is now.
    pub new: i64,
    /// The queues of what waits for it, and of what it has passed, if anything may wait.
    pub awaits: Vec<[u8; 16]>,
}

/// What an advance with versions has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Advanced {
    /// Lanes that moved.
    pub lanes: u64,
    /// Aggregates whose version was what their events were judged by, and is another now.
    pub versions: u64,
    /// Events that waited for one of these versions or right behind, and are due now.
    pub woken: u64,
}

/// A parked event that waits for versions before its own, in a queue of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitingEvent {
    /// Where it is.
    pub offset: Offset,
    /// Its leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Its version.
    pub version: i64,
    /// The queue that it joins in the end.
    pub joins: [u8; 16],
}

/// An event that leaves the queue of its aggregate, to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsideEvent {
    /// Its number.
    pub seq: i64,
    /// The queue in which it waits.
    pub queue: [u8; 16],
    /// Its version.
    pub version: i64,
    /// How long.
    pub wait: Duration,
}

/// Versions of aggregates, in the two statements that a transaction has anyway.
pub trait Versions: Database {
    /// [`Claim::claim`](super::Claim::claim), and the versions of these aggregates, distinct and sorted; those without
    /// a row are left out.
    fn claim_versions(
        conn: &mut Self::Connection,
        scope: &Scope,
        request: &ClaimRequest,
        keys: &[[u8; 16]],
    ) -> impl Future<Output = Result<(ClaimResult, Vec<LastVersion>), sqlx::Error>> + Send;
    /// [`Claim::advance`](super::Claim::advance), and `versions`, sorted by their keys. No version is written but in
    /// the transaction of the claim, by who has all its lanes, over the one before (`prev`): anything but one
    /// row for each: roll back. What waits in one of their queues joins that of its
    /// aggregate, and is due; so does what waits there for the versions right behind, as far as they are without a hole.
    /// Not all of it at once.
    fn advance_versions(
        conn: &mut Self::Connection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
        changed: Option<i64>,
        versions: &[VersionMove],
    ) -> impl Future<Output = Result<Advanced, sqlx::Error>> + Send;
    /// Tells parked events, which are in their queues already, which ones they join. Answers how many there were.
    fn set_joins(
        conn: &mut Self::Connection,
        scope: &Scope,
        events: &[WaitingEvent],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// Takes events out of the queues of their aggregates. Answers how many there were.
    fn set_aside(
        conn: &mut Self::Connection,
        scope: &Scope,
        events: &[AsideEvent],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// Whether the queue that an event joins has any other in it; `None` when it waits for no version.
    fn joins_others(
        conn: &mut Self::Connection,
        scope: &Scope,
        seq: i64,
    ) -> impl Future<Output = Result<Option<bool>, sqlx::Error>> + Send;
    /// Which event waits with the lowest version above `last`, of those of the same aggregate that join the same
    /// queue as this one.
    fn first_waiting(
        conn: &mut Self::Connection,
        scope: &Scope,
        seq: i64,
        last: i64,
    ) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;
    /// Puts an event that has waited into the queue of its aggregate, due at once.
    fn join(
        conn: &mut Self::Connection,
        scope: &Scope,
        seq: i64,
        reason: ParkReason,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// The versions alone, for a release.
    fn last_versions(
        conn: &mut Self::Connection,
        scope: &Scope,
        keys: &[[u8; 16]],
    ) -> impl Future<Output = Result<Vec<LastVersion>, sqlx::Error>> + Send;
}
