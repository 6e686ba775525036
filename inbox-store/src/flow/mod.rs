//! What all databases do alike, written once: each flow over a table of its SQL texts, which stand with the
//! rest of a database in its folder.
//!
//! A flow has a struct `…Texts`, whose fields say what the parameters are, and a trait `…Sql` with that table
//! and with the steps that databases take in different ways. What is hot (claim, advance, parking, queued and
//! declared statements) is each database's own.

mod client;
pub(crate) mod corrections;
pub(crate) mod inspection;
pub(crate) mod intake;
pub(crate) mod intents;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod ownership;
pub(crate) mod parked;
pub(crate) mod parking;
pub(crate) mod release;
pub(crate) mod savepoint;
pub(crate) mod schema;
pub(crate) mod suspects;

pub(crate) use client::{Columns, Read, SqlClient, Value, reads, sql_client, values};
