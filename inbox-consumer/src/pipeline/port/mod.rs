//! What the pipeline asks of Kafka and of the database. The rooms `kafka` and `store` implement it;
//! the pipeline never imports them.

mod declared;
mod kafka;
mod keeping;
pub mod release;
mod transaction;

pub use declared::{
    ColumnType, Declarations, DeclaredSql, LoopSql, Refused, Relation, Shape, Values,
};
pub use kafka::{Arrival, Broker, BrokerError, BrokerEvent, LogRange, TopicPartition, Vitals};
pub use keeping::{
    Finding, Inspections, Owner, Ownerships, ParkedLoad, Parkings, PartitionRow, PruneCursor,
    PruneStep, Retentions, Schemas, Store, TakeOver, TakeOverError, Taken, WatermarkMove,
};
pub use transaction::{
    Address, Claim, ClaimRequest, Claimed, Known, OpenError, Parking, Recheck, Savepoint, Scope,
    Sessions, StoreFault, TxLimits,
};

/// One delivery inside the pipeline.
pub type Delivered = inbox_engine::Item<std::sync::Arc<crate::pipeline::Delivery>>;
