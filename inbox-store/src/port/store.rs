//! The traits by who asks: each user of a database can name its own statements, and no others.
//!
//! An operator's query is not there for what runs events:
//!
//! ```compile_fail
//! fn list<DB: inbox_store::internal::port::Transactions>() {
//!     let _ = DB::list;
//! }
//! ```
//!
//! ```
//! fn list<DB: inbox_store::internal::port::Operators>() {
//!     let _ = DB::list;
//! }
//! ```

use super::{
    Advices, Claim, Corrections, Declarations, Inspections, Intakes, Intents, Ownerships,
    ParkedEvents, Parkings, Retentions, Savepoint, Schemas, Sessions, Suspects, Versions,
    release::Releases,
};

/// What runs events, live and released: a transaction from its beginning to its end.
pub trait Transactions:
    Sessions
    + Claim
    + Savepoint
    + Declarations
    + Intakes
    + Parkings
    + Releases
    + Suspects
    + Versions
    + outbox_core::OutboxDatabase
{
}

impl<DB> Transactions for DB where
    DB: Sessions
        + Claim
        + Savepoint
        + Declarations
        + Intakes
        + Parkings
        + Releases
        + Suspects
        + Versions
        + outbox_core::OutboxDatabase
{
}

/// What the owner of partitions asks beside its transactions: take-over, watermark, what is due, retention.
pub trait Owners: Transactions + Ownerships + Retentions + Inspections + Schemas {}

impl<DB: Transactions + Ownerships + Retentions + Inspections + Schemas> Owners for DB {}

/// What people ask by commands: tables, looks, checks, intents, corrections.
pub trait Operators:
    Sessions
    + Schemas
    + Inspections
    + Advices
    + ParkedEvents
    + Intents
    + Corrections
    + Retentions
    + outbox_core::OutboxDatabase
{
}

impl<DB> Operators for DB where
    DB: Sessions
        + Schemas
        + Inspections
        + Advices
        + ParkedEvents
        + Intents
        + Corrections
        + Retentions
        + outbox_core::OutboxDatabase
{
}

/// Everything a database has to do, by who asks for it. Implemented for `sqlx::Postgres` and
/// `sqlx::Sqlite`.
pub trait Store: Owners + Operators {}

impl<DB: Owners + Operators> Store for DB {}
