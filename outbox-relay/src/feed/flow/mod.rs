//! What all databases do alike, written once: each flow over SQL texts, which stand with the rest of a database
//! in its folder.
//!
//! A flow has a trait `…Sql`, with its texts, or a table of them whose fields say what the parameters are, and with
//! the steps that databases take in different ways. What is hot (rows that are read and marked), and what one
//! database says in one statement and the other in several (held rows, retention), is each database's own.

mod client;
pub(super) mod inspection;
#[cfg(feature = "cli")]
pub(super) mod operators;
pub(super) mod rows;
mod schema;
pub(super) mod topics;
pub(super) mod turn;

pub(super) use client::{Columns, Read, SqlClient, Value, sql_client, values};
