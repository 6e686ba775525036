//! What operators ask of the database about parked events: looked at and acted on. Every question is about
//! one consumer, by its name.

use std::future::Future;

use serde::Serialize as _;
use sqlx::Database;

use super::release::Intent;

/// Which parked events. What is `None` does not matter.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ParkedFilter {
    /// The event with this number.
    pub seq: Option<i64>,
    /// The whole queue that this event is in.
    pub queue_of: Option<i64>,
    /// The topic it came from.
    pub topic: Option<String>,
    /// The partition it came from.
    pub partition: Option<i32>,
    /// Its type.
    pub event_type: Option<String>,
    /// Its aggregate, as `type/id` or the id alone.
    pub aggregate: Option<String>,
    /// Why it is parked.
    pub reason: Option<String>,
    /// A part of one of its errors, upper and lower case alike.
    pub error: Option<String>,
    /// When its turn comes.
    pub when: Option<When>,
    /// Events that follow an earlier one of their aggregate, too.
    pub followers: bool,
}

/// When a parked event's turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Now: its time has come, or somebody asked for it.
    Due,
    /// When a person says so.
    Waiting,
}

impl When {
    /// The word that the statements compare with.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Waiting => "waiting",
        }
    }
}

/// Which page of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// At most so many.
    pub limit: u32,
    /// The youngest first.
    pub newest: bool,
}

/// One parked event, without its record.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct ParkedRow {
    /// Its number; smaller ones of its aggregate come first.
    pub seq: i64,
    /// Where it came from.
    pub topic: String,
    /// Where it came from.
    pub partition: i32,
    /// Where it came from.
    pub offset: i64,
    /// The leader epoch it was written under; -1: not known.
    pub leader_epoch: i32,
    /// Its lane.
    pub lane: i32,
    /// Its id.
    pub event_id: String,
    /// Its type; empty when the record could not be read.
    pub event_type: String,
    /// Its aggregate; empty when the record could not be read.
    pub aggregate: String,
    /// Why it is parked.
    pub reason: String,
    /// How often a handler has failed on it.
    pub attempts: i32,
    /// How many rounds of release it has been through.
    pub releases: i32,
    /// When it was parked.
    pub parked_at: String,
    /// When its turn comes: a time, `infinity` (null in JSON) for what waits for a person, or `None` for what follows
    /// another event.
    #[serde(serialize_with = "finite")]
    pub due_at: Option<String>,
    /// Seconds until then; below zero when it has passed. `None` where there is no such time.
    pub due_seconds: Option<f64>,
    /// What an operator asked for.
    pub intent: Option<String>,
    /// Who asked.
    pub intent_by: Option<String>,
    /// When.
    pub intent_at: Option<String>,
    /// What a handler or the reader said last.
    pub error: Option<String>,
    /// The first event of its queue; its own number when it is that.
    pub head: i64,
    /// Events behind it in its queue.
    pub followers: i64,
    /// Its topic's rows were retired.
    pub retired: bool,
}

/// A time that is one: no reader of JSON knows `infinity`.
#[expect(clippy::ref_option, reason = "as serde calls it")]
fn finite<S: serde::Serializer>(time: &Option<String>, output: S) -> Result<S::Ok, S::Error> {
    time.as_ref().filter(|time| *time != "infinity").serialize(output)
}

/// How many parked events there are, and what they wait for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct ParkedCounts {
    /// All.
    pub events: i64,
    /// Aggregates among them.
    pub aggregates: i64,
    /// Those that follow an earlier one of their aggregate.
    pub followers: i64,
    /// Those whose turn it is.
    pub due: i64,
    /// Those that are tried again later by themselves.
    pub scheduled: i64,
    /// Those that wait for a person.
    pub waiting: i64,
}

/// What is kept of a parked event beside its row in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParkedContent {
    /// The record, as JSON text.
    pub record: String,
    /// The chain of errors, as a JSON array of `{at, attempt, error}`.
    pub errors: String,
    /// Its fingerprint.
    pub fingerprint: [u8; 16],
}

/// One act of an operator.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct AuditRow {
    /// Its number.
    pub audit: i64,
    /// When.
    pub at: String,
    /// Who.
    pub who: String,
    /// `release`, `discard`, `skip` or `retire`.
    pub what: String,
    /// Why, as they said; may be empty.
    pub why: String,
    /// The topic it was about.
    pub topic: Option<String>,
    /// The partition it was about.
    pub partition: Option<i32>,
    /// The offset it was about.
    pub offset: Option<i64>,
    /// The event it was about.
    pub event_id: Option<String>,
    /// Its aggregate.
    pub aggregate: Option<String>,
    /// Its type.
    pub event_type: Option<String>,
}

/// Which acts.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct AuditFilter {
    /// About this topic.
    pub topic: Option<String>,
    /// About this partition.
    pub partition: Option<i32>,
    /// About this offset.
    pub offset: Option<i64>,
    /// By this person.
    pub who: Option<String>,
    /// Of this kind.
    pub what: Option<String>,
}

/// Looking at parked events.
pub trait ParkedEvents: Database {
    /// The parked events of a page.
    fn list(
        conn: &mut Self::Connection,
        consumer: &str,
        filter: &ParkedFilter,
        page: Page,
    ) -> impl Future<Output = Result<Vec<ParkedRow>, sqlx::Error>> + Send;
    /// How many there are, followers included whatever the filter says of them.
    fn counts(
        conn: &mut Self::Connection,
        consumer: &str,
        filter: &ParkedFilter,
    ) -> impl Future<Output = Result<ParkedCounts, sqlx::Error>> + Send;
    /// What is kept of one event.
    fn content(
        conn: &mut Self::Connection,
        consumer: &str,
        seq: i64,
    ) -> impl Future<Output = Result<Option<ParkedContent>, sqlx::Error>> + Send;
    /// The last acts, the newest first.
    fn acts(
        conn: &mut Self::Connection,
        consumer: &str,
        filter: &AuditFilter,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<AuditRow>, sqlx::Error>> + Send;
}

/// An operator's order: an intent, with who has it and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntentRequest {
    /// What.
    pub intent: Intent,
    /// Who.
    pub who: String,
    /// Why, as they said; may be empty for a release.
    pub why: String,
    /// Also on events that may have had their effect, and over another operator's intent.
    pub force: bool,
}

/// What an act would meet in one partition.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Weight {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Its owner's name, if owned.
    pub owner: Option<String>,
    /// Seconds since the owner was last seen, by the database's clock.
    pub owner_seen_seconds: Option<f64>,
    /// Why the partition stands still, as its owner last said.
    pub standstill: Option<String>,
    /// Its topic's rows were retired: nobody will own it again.
    pub retired: bool,
    /// Events that match.
    pub events: i64,
    /// Those that the act would be written on.
    pub free: i64,
    /// Events behind those in their queues.
    pub behind: i64,
    /// Those that may have had their effect already: only by force.
    pub doubtful: i64,
    /// Those on which the same is asked already.
    pub same: i64,
    /// Those on which the opposite is asked: only by force.
    pub opposite: i64,
    /// Those that follow another event of their aggregate. Counted for a release, which begins with
    /// the head of a queue.
    pub following: i64,
}

/// An event on which an intent was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intended {
    /// Its number.
    pub seq: i64,
    /// Its offset.
    pub offset: i64,
    /// The offset of the last event that its queue had then.
    pub last: i64,
    /// Its partition's row.
    pub partition_ref: i64,
    /// Its aggregate's key.
    pub aggregate: [u8; 16],
}

/// What became of an intent so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntentState {
    /// The event it was written on.
    pub seq: i64,
    /// The first event of that queue that is still there.
    pub rest: i64,
    /// It is still asked for, or its turn has come.
    pub pending: bool,
    /// Why the one that is still there is parked.
    pub reason: String,
    /// What it failed with last.
    pub error: Option<String>,
}

/// An aggregate that is to be forgotten, once nothing of it is parked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forgotten {
    /// Type and id, as the audit has them.
    pub aggregate: String,
    /// Only what came from this topic.
    pub topic: Option<String>,
    /// Who wants it.
    pub who: String,
}

/// Acting on parked events: intents alone, each with its row in the audit, in one transaction. The
/// work is the owner's.
pub trait Intents: Database {
    /// What an act would meet, per partition.
    fn weigh(
        conn: &mut Self::Connection,
        consumer: &str,
        filter: &ParkedFilter,
        order: &IntentRequest,
    ) -> impl Future<Output = Result<Vec<Weight>, sqlx::Error>> + Send;
    /// Writes the intent on up to `max` matching events behind `after`, in their order. Those that a
    /// transaction of their owner holds at the moment are passed over.
    fn intend(
        conn: &mut Self::Connection,
        consumer: &str,
        filter: &ParkedFilter,
        order: &IntentRequest,
        after: i64,
        max: u32,
    ) -> impl Future<Output = Result<Vec<Intended>, sqlx::Error>> + Send;
    /// Takes an aggregate's name and what was said of it out of the audit and out of the words on lanes, and
    /// writes down that it did, without them; answers how many acts it changed.
    fn forget(
        conn: &mut Self::Connection,
        consumer: &str,
        forgotten: &Forgotten,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// What is left of these; an event that is gone has no outcome.
    fn intent_states(
        conn: &mut Self::Connection,
        order: &IntentRequest,
        intended: &[Intended],
    ) -> impl Future<Output = Result<Vec<IntentState>, sqlx::Error>> + Send;
}
