//! What all databases do alike, written once: each flow over SQL texts, which stand with the rest of a database
//! in its folder.
//!
//! A flow has a trait `…Sql`, with its texts, or a table of them whose fields say what the parameters are, and with
//! the steps that databases take in different ways. What is hot (rows that are read, and marked as sent), and what one
//! database says in one statement and the other in several (claims, retention), is each database's own.

mod client;
pub(super) mod inspection;
#[cfg(feature = "cli")]
pub(super) mod operators;
pub(super) mod parking;
pub(super) mod rows;
mod schema;
pub(super) mod store;
pub(super) mod turn;

#[cfg(feature = "cli")]
use crate::port::{DESTINATION, TOPIC};

pub(super) use client::{Columns, Read, SqlClient, Value, sql_client, values};

/// What a row waits for, for people: the name of a topic, or `destination NAME` with the scope behind it. A name of a topic
/// has no blank.
#[cfg(feature = "cli")]
fn shown(destination: &str) -> String {
    match (destination.strip_prefix(TOPIC), destination.split_once('/')) {
        (Some(topic), _) => topic.to_owned(),
        (None, Some((name, scope))) => format!("{DESTINATION}{name} ({scope})"),
        (None, None) => format!("{DESTINATION}{destination}"),
    }
}
