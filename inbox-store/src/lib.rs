//! The databases of inbox-consumer: the only crate on the consuming side with SQL text.
//!
//! - `port` has the traits that the consumer asks a database by. [`Store`] is all of them, grouped by who
//!   asks, implemented for `sqlx::Postgres` and `sqlx::Sqlite`.
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
//! Use it through `inbox-consumer`, which exports what is on this page.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod declared;
mod end;
mod flow;
mod inspect;
#[cfg(feature = "sqlite")]
mod json;
mod parts;
mod port;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod queued;
mod record_text;
#[cfg(feature = "sqlite")]
mod relation_json;
mod shared;
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod takeover;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("no database is on: enable the feature `postgres` or `sqlite` of inbox-store");

pub use port::{Finding, OpenError, Queues, Savepoint, Sessions, Store};

/// What the crates of `inbox-consumer` ask, for them alone: no promise of stability, any version may change it.
#[doc(hidden)]
pub mod internal {
    #[cfg(feature = "postgres")]
    pub use crate::postgres::PgSettings;
    #[cfg(feature = "sqlite")]
    pub use crate::sqlite::SqliteSettings;
    pub use crate::{parts::Parts, shared::SettingsError};

    /// The traits that a database is asked by, and what they take and give.
    pub mod port {
        pub use crate::port::*;
    }

    /// Records as texts of the tables.
    pub mod record_text {
        pub use crate::record_text::*;
    }

    /// SQL as a sequence of tokens.
    pub mod sql {
        pub use crate::sql::*;
    }

    /// What tests look at.
    #[cfg(all(feature = "postgres", feature = "testing"))]
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
}

#[cfg(feature = "postgres")]
use shared::SettingsError;
