//! The last version of each aggregate, where a route looks at them: read in the claim, changed in the advance.

use std::future::Future;

use inbox_engine::internal::LaneMove;
use sqlx::Database;

use super::{ClaimRequest, ClaimResult, Scope};

/// An aggregate, and the version of the last of its events that was applied.
pub type LastVersion = ([u8; 16], i64);

/// One aggregate whose version a transaction changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionMove {
    /// Which.
    pub key: [u8; 16],
    /// What the claim read; `None`: there was no row.
    pub prev: Option<i64>,
    /// What it is now.
    pub new: i64,
}

/// What an advance with versions has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Advanced {
    /// Lanes that moved.
    pub lanes: u64,
    /// Aggregates whose version was what the claim read, and is another now.
    pub versions: u64,
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
    /// the transaction of the claim, by who has all its lanes, over the one that the claim read: anything but one
    /// row for each: roll back.
    fn advance_versions(
        conn: &mut Self::Connection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
        changed: Option<i64>,
        versions: &[VersionMove],
    ) -> impl Future<Output = Result<Advanced, sqlx::Error>> + Send;
    /// The versions alone, for a release.
    fn last_versions(
        conn: &mut Self::Connection,
        scope: &Scope,
        keys: &[[u8; 16]],
    ) -> impl Future<Output = Result<Vec<LastVersion>, sqlx::Error>> + Send;
}
