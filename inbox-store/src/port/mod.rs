//! What the consumer asks of a database. It names no database itself: these traits are all that it knows.

mod corrections;
#[doc(hidden)]
pub mod deadline;
mod declared;
mod fit;
mod inspection;
mod intake;
mod maintenance;
mod operator;
mod placement;
mod queue;
pub mod release;
mod store;
mod suspects;
mod transaction;
mod versions;

pub use corrections::{Beginning, Corrected, Correction, Corrections, PartitionRecord};
pub use declared::{
    ColumnType, Declarations, DeclaredSql, LoopSql, Refused, Relation, Shape, Values,
};
pub use fit::Fit;
pub use inspection::{
    Advices, Finding, Inspections, Needs, Note, OldSnapshot, PartitionRow, RoleKind,
};
pub use intake::{IntakePartition, Intakes, LockedLane};
pub use maintenance::{
    ACTS_PER_STEP, Owner, Ownerships, ParkedLoad, Parkings, PruneCursor, PruneStep, Retentions,
    Schemas, TakeOver, TakeOverError, Taken, WatermarkMove,
};
pub use operator::{
    AuditFilter, AuditRow, Forgotten, Intended, IntentRequest, IntentState, Intents, Page,
    ParkedContent, ParkedCounts, ParkedEvents, ParkedFilter, ParkedRow, Weight, When,
};
pub use placement::{Lanes, Placement};
pub use queue::{
    EncodedValues, QueuedStatement, QueuedValues, Queues, RefusedText, RegistrySnapshot,
    SendContext, SendError, StatementRegistry, StatementText, TextCheck,
};
pub use release::Intent;
pub use store::{Operators, Owners, Store, Transactions};
pub use suspects::{Suspect, Suspects};
pub use transaction::{
    Address, Claim, ClaimRequest, ClaimResult, InboxRow, OpenError, Parking, Recheck, Savepoint,
    Scope, Sessions, StoreFault, TxLimits,
};
pub use versions::{Advanced, AsideEvent, LastVersion, VersionMove, Versions, WaitingEvent};
