//! What the consumer asks of a database. It names no database itself: these traits are all that it knows.

mod correcting;
pub mod deadline;
mod declared;
mod fit;
mod inspection;
mod keeping;
mod operating;
mod placement;
mod queue;
pub mod release;
mod store;
mod suspects;
mod transaction;

pub use correcting::{Beginning, Corrected, Correction, Corrections, Held};
pub use declared::{
    ColumnType, Declarations, DeclaredSql, LoopSql, Refused, Relation, Shape, Values,
};
pub use fit::Fit;
pub use inspection::{Advices, Finding, Inspections, Needs, Note, PartitionRow, RoleKind};
pub use keeping::{
    ACTS_PER_STEP, Owner, Ownerships, ParkedLoad, Parkings, PruneCursor, PruneStep, Retentions,
    Schemas, TakeOver, TakeOverError, Taken, WatermarkMove,
};
pub use operating::{
    AuditFilter, AuditRow, Forgotten, Intended, Intents, Kept, Order, Outcome, Page, ParkedCounts,
    ParkedEvents, ParkedFilter, ParkedRow, Weight, When,
};
pub use placement::{Lanes, Placement};
pub use queue::{
    Apart, Book, Edition, Look, Means, NotSent, Queues, RefusedText, Text, Values as QueuedValues,
    Waiting,
};
pub use release::Intent;
pub use store::{Operators, Owners, Store, Transactions};
pub use suspects::{Suspect, Suspects};
pub use transaction::{
    Address, Claim, ClaimRequest, Claimed, Known, OpenError, Parking, Recheck, Savepoint, Scope,
    Sessions, StoreFault, TxLimits,
};
