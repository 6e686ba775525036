//! Records as Debezium's outbox event router writes them, byte for byte, from the same rows.
//!
//! It knows events, settings and bytes; nothing of databases, of Kafka's client or of the loop between them. What a row of
//! another table has besides the columns of `outbox_events` stands in the header [`ROW`](row::ROW), which the trigger of
//! `outbox-relay adopt` writes. The shapes are Connect's: each value has a schema, and a converter makes bytes of both.

mod connect;
mod converter;
mod expand;
mod json;
mod number;
mod router;
mod row;
mod topic;

#[cfg(test)]
mod tests;

pub(crate) use router::Router;
