//! What the relay asks of the outbox's database: small traits, grouped by who asks (`feed`). A database
//! that can hold an outbox has them all.
//!
//! Every call is a statement or two, each in a transaction of its own: nothing is open while the broker is waited for,
//! and a call that is given up half-way costs its connection and nothing else.

mod adoption;
mod failed;
mod feed;
mod holding;
mod inspection;
mod numbers;
mod retention;
mod retries;
mod rows;
mod schema;
mod sessions;
mod turns;
mod wakes;

pub(crate) use adoption::{Adoption, Adoptions, DebeziumNeeds, FurtherColumn, TableMapping};
pub(crate) use failed::{Act, Choice, FailedRow, FailedRows, RowContent, Step};
pub(crate) use feed::{Operators, Owners, Relays, Rounds};
pub(crate) use holding::{Appenders, DESTINATION, Holding, ReleasedRows, Topics, is_destination};
pub use inspection::Finding;
pub(crate) use inspection::{Inspection, Measurements, Overview, Reading, Rights, RoleKind};
pub(crate) use numbers::Numbers;
pub(crate) use retention::{Pruned, Retention};
pub(crate) use retries::{DUE_MAX, Retries};
pub(crate) use rows::{Marked, Marks, Row, RowFailure, RowId, RowPage, RowQuery, Rows};
pub(crate) use schema::Schema;
pub use sessions::OpenError;
pub(crate) use sessions::{Address, FeedError, Sessions, whole};
pub(crate) use turns::{HeldTurn, LeaseMark, Turn, TurnAnswer, TurnRequest, Turns};
pub(crate) use wakes::{WakeSignals, Wakes};
