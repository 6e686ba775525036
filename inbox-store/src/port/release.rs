//! What is asked of the database to release parked events. Everything but the look runs inside the
//! release's own transaction, which [`Claim::begin`](super::Claim::begin) opens, a claim fences, and
//! an advance that moves nothing closes.

use std::{future::Future, time::Duration};

use inbox_engine::internal::{LeaderEpoch, Offset, ParkReason};
use sqlx::Database;

use super::Scope;

/// A parked queue that has something to do now: its head is due, or somebody asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueQueue {
    /// The lane that was written with its first event that is due.
    pub lane: inbox_engine::internal::Lane,
    /// The key of its aggregate.
    pub aggregate: [u8; 16],
    /// The offset of that event.
    pub offset: Offset,
    /// Its record, when it may be older than the partition's lanes: the lane has to be found anew.
    pub record: Option<String>,
}

/// When the turn of a parked event comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DueState {
    /// After the one before it.
    Follows,
    /// Now.
    Due,
    /// At a later time, or when a person says so.
    Later,
}

/// What an operator asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Run it now.
    Release,
    /// Remove it without running it.
    Discard,
}

impl Intent {
    /// The word in the tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Release => "release",
        }
    }
}

/// A parked event, as its release reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queued {
    /// Its number. The order of a queue is that of offsets.
    pub seq: i64,
    /// The id it was claimed with.
    pub id: [u8; 16],
    /// Its fingerprint then.
    pub fingerprint: [u8; 16],
    /// Whether that is of SHA-256, as all are that are parked now.
    pub sha256: bool,
    /// Its offset.
    pub offset: Offset,
    /// Its leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Why it is parked, as the database has it; [`RELEASING`] when a release marked it.
    pub reason: String,
    /// How often a handler failed on it.
    pub attempts: u32,
    /// Rounds of release that failed.
    pub releases: u32,
    /// Its turn.
    pub due_state: DueState,
    /// What an operator asked for, and who.
    pub intent: Option<(Intent, String)>,
    /// Its type, for people.
    pub event_type: String,
    /// Its aggregate, for people.
    pub aggregate_text: String,
    /// Its errors, as JSON text.
    pub errors: String,
    /// The record, as JSON text; empty when it is to be discarded.
    pub record: String,
}

impl Queued {
    /// Whether a person gave it up.
    pub fn discarded(&self) -> bool {
        matches!(self.intent, Some((Intent::Discard, _)))
    }

    /// Whether it may run as the head of its queue.
    pub fn due(&self) -> bool {
        // A follower that has become the head is due: what was before it is gone.
        self.due_state != DueState::Later || matches!(self.intent, Some((Intent::Release, _)))
    }
}

/// `reason` of an event that a release is about to run. Where it is seen from outside the release's
/// transaction, a handler has ended that transaction: whether the effect is there is not known.
pub const RELEASING: &str = "releasing";

/// A parked event that stays, with what is new about it. Its intent is carried out, or void.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requeued {
    /// Which.
    pub seq: i64,
    /// Why it is parked now.
    pub reason: ParkReason,
    /// How often a handler failed on it.
    pub attempts: u32,
    /// Rounds of release that failed.
    pub releases: u32,
    /// When it is due again, counted from now by the database's clock; `None`: it waits for a person.
    pub delay: Option<Duration>,
    /// Its errors, as JSON text.
    pub errors: String,
}

/// Releases of parked events: the lane owner's own work, with the lane reserved.
pub trait Releases: Database {
    /// Locks and reads the first `max` events of a queue, and more that are to be discarded, in order.
    fn queue(
        conn: &mut Self::Connection,
        scope: &Scope,
        aggregate: &[u8; 16],
        max: usize,
    ) -> impl Future<Output = Result<Vec<Queued>, sqlx::Error>> + Send;
    /// Marks what is about to run, so that it is not due any more whoever ends the transaction. Answers
    /// how many rows it marked.
    fn mark(
        conn: &mut Self::Connection,
        scope: &Scope,
        seqs: &[i64],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// Makes followers again of what was marked and not run.
    fn unmark(
        conn: &mut Self::Connection,
        scope: &Scope,
        seqs: &[i64],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Locks and reads the other copies of an event in its queue whose id is another event's: equal id, equal
    /// content. `other` is its fingerprint in rows of the other hash than its own.
    fn copies(
        conn: &mut Self::Connection,
        scope: &Scope,
        aggregate: &[u8; 16],
        row: &Queued,
        other: &[u8; 16],
    ) -> impl Future<Output = Result<Vec<Queued>, sqlx::Error>> + Send;
    /// Removes events from their queue; answers how many. Their inbox rows count from now as settled.
    fn remove(
        conn: &mut Self::Connection,
        scope: &Scope,
        events: &[(i64, [u8; 16])],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// Makes the first event of a queue due, if it is a follower still.
    fn promote(
        conn: &mut Self::Connection,
        scope: &Scope,
        aggregate: &[u8; 16],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Writes what is new about events that stay.
    fn requeue(
        conn: &mut Self::Connection,
        scope: &Scope,
        events: &[Requeued],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Writes down who had what done, one row for each.
    fn audit(
        conn: &mut Self::Connection,
        scope: &Scope,
        acts: &[Act],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// What an operator had done with a parked event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Act {
    /// Who.
    pub who: String,
    /// `released`, `discarded`, `copy` or `release_failed`.
    pub what: &'static str,
    /// The error of a release that failed; of what an event is a copy.
    pub why: String,
    /// The event's offset.
    pub offset: Offset,
    /// Its id.
    pub id: [u8; 16],
    /// Its aggregate, for people.
    pub aggregate: String,
    /// Its type.
    pub event_type: String,
}
