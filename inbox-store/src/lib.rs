//! The databases of inbox-consumer: the only crate on the consuming side with SQL text.
//!
//! - [`port`] has the traits that the consumer asks a database by. [`port::Store`] is all of them,
//!   grouped by who asks, implemented for `sqlx::Postgres` and `sqlx::Sqlite`.
//! - `flow` has what all databases do alike, over a table of texts.
//! - The texts, and what a database does its own way, are in a folder each, with the same files and
//!   functions in both.
//!
//! What every database has to do is tried by the crate `inbox-store-conformance`, scenario by scenario.
//!
//! Every call outside the live transaction (take-over, watermark, prune, …) opens and ends a
//! transaction of its own. None of them may be dropped half-way: a connection whose call was dropped
//! has to be closed.
//!
//! Modules that are hidden from this page are for inbox-consumer alone, and change with it.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod parts;
pub mod port;
#[doc(hidden)]
pub mod record_text;
#[doc(hidden)]
pub mod sql;

mod declared;
mod end;
mod flow;
mod inspect;
#[cfg(feature = "sqlite")]
mod json;
mod migration;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod queued;
#[cfg(feature = "sqlite")]
mod relation_json;
mod shared;
#[cfg(feature = "sqlite")]
mod sqlite;
mod takeover;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("no database is on: enable the feature `postgres` or `sqlite` of inbox-store");

#[cfg(feature = "postgres")]
pub use postgres::PgSettings;
pub use shared::SettingsError;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteSettings;

/// What tests of inbox-consumer look at.
#[cfg(all(feature = "postgres", feature = "testing"))]
#[doc(hidden)]
pub mod inside {
    use crate::port::{RegistrySnapshot, StatementText};

    /// Whether a text can be a step of the function that runs queued statements.
    pub fn fits(text: &StatementText) -> bool {
        crate::queued::fits(text)
    }

    /// The functions that a session is prepared with for these texts.
    pub fn functions_of_queued(snapshot: &RegistrySnapshot) -> String {
        crate::postgres::functions_of_queued(snapshot)
    }
}
