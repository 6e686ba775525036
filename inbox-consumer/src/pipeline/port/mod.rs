//! What the pipeline asks of Kafka and of the database. The rooms `kafka` and `store` implement it;
//! the pipeline never imports them.

mod correcting;
pub(crate) mod deadline;
mod declared;
mod excerpt;
mod fit;
mod kafka;
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
pub(crate) use excerpt::Lying;
pub use excerpt::{Excerpt, Excerpts, Flaw};
pub(crate) use fit::Fit;
pub use kafka::{
    Arrival, Broker, BrokerError, BrokerEvent, Committed, Load, LogEnds, LogRange, Mark,
    TopicPartition, TopicSight, TopicState, Trouble, Vitals, missing,
};
pub use keeping::{
    Advices, Finding, Inspections, Lanes, Needs, Note, Owner, Ownerships, ParkedLoad, Parkings,
    PartitionRow, PruneCursor, PruneStep, Retentions, RoleKind, Schemas, Store, TakeOver,
    TakeOverError, Taken, WatermarkMove,
};
pub use operating::{
    AuditFilter, AuditRow, Intended, Intents, Kept, Order, Outcome, Page, ParkedCounts,
    ParkedEvents, ParkedFilter, ParkedRow, Weight, When,
};
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
