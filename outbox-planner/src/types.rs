//! What goes in and out.

use std::{sync::Arc, time::Duration};

/// Time since the planner was made.
pub type Time = Duration;

/// A row's number and its event's id: after a failover or a restore a number is given twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowKey {
    /// The row's number.
    pub seq: i64,
    /// The event's id.
    pub event: u128,
}

/// What fails together: a destination by its number, and a part of it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LaneKey {
    /// The number of the destination.
    pub destination: usize,
    /// Empty where the destination fails as a whole. Printable.
    pub scope: Arc<str>,
}

/// An event in memory.
#[derive(Clone, Debug)]
pub struct Item<T> {
    /// Which row.
    pub key: RowKey,
    /// `type/id`.
    pub aggregate: Arc<str>,
    /// Where it goes.
    pub lane: LaneKey,
    /// How many attempts have failed.
    pub attempts: u32,
    /// It is in the parking store, claimed.
    pub claimed: bool,
    /// What it counts for in memory.
    pub bytes: usize,
    /// What the destination is given.
    pub content: T,
}

/// A row that was read or claimed.
#[derive(Clone, Debug)]
pub struct Incoming<T> {
    /// Which row.
    pub key: RowKey,
    /// `type/id`.
    pub aggregate: Arc<str>,
    /// An earlier row of its aggregate was parked when this one was read.
    pub blocked: bool,
    /// It is in the parking store, claimed.
    pub claimed: bool,
    /// How many attempts have failed.
    pub attempts: u32,
    /// What it counts for in memory.
    pub bytes: usize,
    /// The destination's name as the parking store has it.
    pub destination: String,
    /// What becomes of it.
    pub fate: Fate<T>,
}

/// What becomes of a row that nothing is in the way of.
#[derive(Clone, Debug)]
pub enum Fate<T> {
    /// It goes there.
    Send(LaneKey, T),
    /// Not before this time has passed.
    Later(Duration),
    /// What it needs under its destination's name is missing: why.
    Awaits(String),
    /// It can never be sent as it is: why.
    Unsendable(String),
}

/// What became of one event of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The destination has it.
    Delivered,
    /// It failed, or may have: why, and how long the destination asks to wait.
    Failed(String, Option<Duration>),
    /// The destination could not be reached, or takes nothing: why, and how long it asks to wait.
    Unavailable(String, Option<Duration>),
    /// It is never taken: why.
    Refused(String),
    /// What it needs under this name is missing: why.
    Awaits(String, String),
    /// It is refused even while others fail: parked at once.
    Unsendable(String),
    /// It was not tried.
    NotTried,
}

/// Why a row is parked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ParkState {
    /// It goes as soon as there is room.
    Ready,
    /// It goes at a time of its own (`deliver_after`).
    Scheduled,
    /// It failed, and is tried again at a time.
    Retry,
    /// It goes when its destination works, or its topic is there.
    Waiting,
    /// It waits for a row before it of its aggregate. Stored as ready where there is none.
    Behind,
    /// A person decides.
    Parked,
}

/// A row to park.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Park {
    /// Which row.
    pub key: RowKey,
    /// `type/id`.
    pub aggregate: Arc<str>,
    /// Why.
    pub state: ParkState,
    /// In how long it may go: of those that are scheduled or in retry.
    pub after: Duration,
    /// By which name it is claimed.
    pub destination: String,
    /// How many attempts have failed.
    pub attempts: u32,
    /// What happened; `None` leaves what is written there.
    pub error: Option<String>,
    /// It stays in memory, claimed: later rows of its aggregate are parked while it is under way.
    pub claimed: bool,
}

/// What became of rows, to be stored in one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conclusion {
    /// Delivered, of those that came from the feed.
    pub sent: Vec<RowKey>,
    /// Delivered, of those that were claimed: what is behind them is ready.
    pub delivered: Vec<RowKey>,
    /// To be parked, or parked again, which ends a claim unless it says otherwise. Later rows of their aggregates that are
    /// ready are behind them again, unless these are ready themselves.
    pub parked: Vec<Park>,
}

/// Which call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallId(pub u64);

/// What a read of the feed asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// Up to this number rows have been read.
    pub read_to: i64,
    /// Rows at most.
    pub rows_max: usize,
    /// Their bytes together; the first may have more.
    pub bytes_max: usize,
}

/// What is to be done. Each is answered by the `handle_*` of its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Read the feed.
    Read(ReadRequest),
    /// Claim parked rows of a destination: its name, rows and bytes at most.
    Claim(String, usize, usize),
    /// Ask which destinations have parked rows that may go, and when.
    AskDues,
    /// Store what became of rows.
    Store(Conclusion),
    /// Hand the events of [`crate::internal::Planner::call`] to the destination of this number.
    Call(CallId, usize),
}

/// What people or metrics should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// A lane is out for this long; reported again while it lasts.
    Out(LaneKey, String, Duration),
    /// It works again, after this long.
    Works(LaneKey, Duration),
}

/// What bounds a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DestinationLimits {
    /// The name that routes have for it.
    pub name: String,
    /// Events of a call.
    pub batch_max: usize,
    /// Calls at once.
    pub calls_max: usize,
    /// A call takes several events of an aggregate, in their order.
    pub takes_runs: bool,
    /// It is used only while [`crate::internal::Planner::handle_up`] says so.
    pub connects: bool,
}

/// What the planner is made with.
#[derive(Clone, Debug)]
pub struct PlannerSettings {
    /// The destinations, by their numbers.
    pub destinations: Vec<DestinationLimits>,
    /// All rows go to one lane, so that none hides others.
    pub one_lane: bool,
    /// Rows of one read.
    pub batch_rows: usize,
    /// Bytes of one read.
    pub batch_bytes: usize,
    /// Rows in memory.
    pub rows_max: usize,
    /// Bytes in memory.
    pub bytes_max: usize,
    /// Attempts of an event before it is parked.
    pub attempts_max: u32,
    /// First delay between attempts.
    pub delay_min: Duration,
    /// Longest delay between attempts.
    pub delay_max: Duration,
    /// Longest delay between two probes of what is out.
    pub outage_delay_max: Duration,
    /// This many aggregates that fail with no delivery between them are an outage.
    pub outage_of: usize,
    /// How often parked rows are looked for though nothing is known of any.
    pub dues_every: Duration,
    /// A delay that grows: first, longest, how many there were.
    pub backoff: fn(Duration, Duration, u32) -> Duration,
}
