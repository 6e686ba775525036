//! Records as Debezium's outbox event router writes them, byte for byte, from the same rows.
//!
//! It knows events, settings and bytes; nothing of databases, of Kafka's client or of the loop between them. What a row of
//! another table has besides the columns of `outbox_events` stands in a header, which the trigger of
//! `outbox-relay adopt` writes. The shapes are Connect's: each value has a schema, and a converter makes bytes of both.
//!
//! Use it through `inbox-outbox-relay`, which exports what is on this page.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod connect;
mod converter;
mod expand;
mod json;
mod number;
mod placement;
mod router;
mod row;
mod settings;
mod topic;

#[cfg(test)]
mod tests;

pub use settings::{Debezium, EmptyArrayBehavior, KeyConverter, NullBehavior, ValueConverter};

/// What `inbox-outbox-relay` makes records with, for it alone: no promise of stability, any version may change it.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        placement::{Place, Placement, ROW},
        router::Router,
    };
}
