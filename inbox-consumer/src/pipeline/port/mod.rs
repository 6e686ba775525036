//! What the pipeline asks of Kafka and of the database. The first is the interface of `inbox_kafka`, whose
//! member of a group `consumer` brings along; the second is implemented by the room `store`. The pipeline
//! imports neither implementation.

mod correcting;
pub(crate) mod deadline;
mod declared;
mod fit;
mod inspection;
mod keeping;
mod operating;
mod placement;
mod queue;
pub mod release;
mod suspects;
mod transaction;

pub use correcting::{Beginning, Corrected, Correction, Corrections, Held};
pub use declared::{
    ColumnType, Declarations, DeclaredSql, LoopSql, Refused, Relation, Shape, Values,
};
pub(crate) use fit::Fit;
pub use inbox_engine::LogRange;
pub use inbox_kafka::{
    Arrival, Broker, BrokerError, BrokerEvent, BrokerHealth, ByteGuard, Committed, Excerpt,
    Excerpts, Flaw, LogEnds, TopicSight, TopicState, Trouble, Unread, missing,
};
pub use inspection::{Advices, Finding, Inspections, Needs, Note, PartitionRow, RoleKind};
pub use keeping::{
    ACTS_PER_STEP, Lanes, Owner, Ownerships, ParkedLoad, Parkings, PruneCursor, PruneStep,
    Retentions, Schemas, Store, TakeOver, TakeOverError, Taken, WatermarkMove,
};
pub use operating::{
    AuditFilter, AuditRow, Forgotten, Intended, Intents, Kept, Order, Outcome, Page, ParkedCounts,
    ParkedEvents, ParkedFilter, ParkedRow, Weight, When,
};
pub use outbox_core::{CommitMark, TopicPartition};
pub use placement::Placement;
pub use queue::{
    Apart, Book, Edition, Look, Means, NotSent, Queues, RefusedText, Text, Values as QueuedValues,
    Waiting,
};
pub use release::Intent;
pub use suspects::{Suspect, Suspects};
pub use transaction::{
    Address, Claim, ClaimRequest, Claimed, Known, OpenError, Parking, Recheck, Savepoint, Scope,
    Sessions, StoreFault, TxLimits,
};

/// One delivery inside the pipeline.
pub type Delivered = inbox_engine::Item<std::sync::Arc<crate::pipeline::Delivery>>;
