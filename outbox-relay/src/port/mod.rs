//! What the relay asks of the outbox's database: small traits, grouped by who asks (`feed`). A database
//! that can hold an outbox has them all.
//!
//! Every call is a statement or two, each in a transaction of its own: nothing is open while the broker is waited for,
//! and a call that is given up half-way costs its connection and nothing else.

mod feed;
mod inspection;
mod numbers;
#[cfg(feature = "cli")]
mod operators;
mod parking;
mod report;
mod retention;
mod rows;
mod schema;
mod sessions;
mod turns;
mod wakes;

pub(crate) use feed::{Openings, Owners, Relays, Rounds};
pub use inspection::Finding;
pub(crate) use inspection::{Inspection, Measurements, Reading, Rights};
pub(crate) use numbers::Numbers;
#[cfg(feature = "cli")]
pub(crate) use operators::{
    Act, Adoption, Adoptions, Choice, DESTINATION, DebeziumNeeds, FailedRow, FailedRows,
    FurtherColumn, Grants, Operators, Overview, Overviews, RoleKind, RowContent, Scripts, Step,
    TableMapping, is_destination,
};
pub(crate) use outbox_planner::internal::{Conclusion, Park, ParkState, RowKey};
pub(crate) use parking::{Appenders, CLAIM_MAX, DueDestination, Parked, TOPIC, Writers};
pub(crate) use report::{DestinationOutage, report};
#[cfg(feature = "cli")]
pub(crate) use report::{ReportedOutage, read_report};
pub(crate) use retention::{Pruned, Retention};
pub(crate) use rows::{Row, RowPage, RowQuery, Rows, Stored};
pub(crate) use schema::Schema;
pub use sessions::OpenError;
pub(crate) use sessions::{Address, FeedError, Sessions, whole};
pub(crate) use turns::{
    HeldTurn, KeptTurn, LeaseMark, Seat, SeatChoice, Shards, Turn, TurnAnswer, TurnRequest, Turns,
    UsedSeat,
};
pub(crate) use wakes::{WakeSignals, Wakes};
