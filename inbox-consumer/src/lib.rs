//! Exactly-once effects from Kafka in SQL, in order per aggregate.
//!
//! Kafka delivers an event at least once; a business wants its effect exactly once. Implement
//! [`Handler`] for each type of event: the runtime opens the transaction, claims the event's id in an
//! inbox table, runs the handler on that same transaction, and commits both together. It keeps the order
//! of each aggregate, lets partitions go safely when the group rebalances, parks what cannot be handled
//! together with what follows it, and prunes the inbox by age.
//!
//! ```no_run
//! # #[cfg(all(feature = "postgres", feature = "cli"))] mod example {
//! use inbox_consumer::{Event, Handler, HandlerResult, Tx, cli};
//! use serde::Deserialize;
//! use sqlx::Postgres;
//! use std::process::ExitCode;
//!
//! #[derive(Deserialize)]
//! struct OrderPaid {
//!     account: i64,
//!     amount: i64,
//! }
//!
//! /// Credits the account that an order was paid to.
//! struct CreditAccount;
//!
//! impl Handler<Postgres> for CreditAccount {
//!     type Event = OrderPaid;
//!
//!     async fn handle(&self, event: &Event<OrderPaid>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
//!         sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE id = $2")
//!             .bind(event.payload.amount)
//!             .bind(event.payload.account)
//!             .execute(&mut *tx)
//!             .await?;
//!         Ok(())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     cli::main(|routes| routes.on("OrderPaid", CreditAccount)).await
//! }
//! # }
//! ```
//!
//! That binary has the commands `migrate`, `check`, `run`, `status` and more (`cli`, a feature). In a
//! service with a `main` of its own the consumer is a future:
//!
//! ```no_run
//! # #[cfg(feature = "postgres")]
//! # async fn example(routes: inbox_consumer::Routes<sqlx::Postgres>, shutdown: impl Future<Output = ()> + Send)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use inbox_consumer::{Consumer, config::Config};
//!
//! let config = Config::new("billing", "localhost:9092", ["orders"], "postgres://app@localhost/billing");
//! let ended = Consumer::builder(config, routes).build().await?.run(shutdown).await;
//! println!("{ended}");
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go on
//!
//! - [`Handler`]: what a handler has to know, above all that it may run more than once and that only
//!   what goes through [`Tx`] happens exactly once. [`BatchHandler`] is for SQL that works on sets.
//! - [`HandlerError`]: what is tried again, what is parked at once.
//! - [`Tx`]: the transaction as an sqlx executor; its savepoints; `append` for the outbox.
//! - [`config`]: every key, with its bounds.
//! - [`telemetry`]: every signal and every counter.
//!
//! # What it does not promise
//!
//! Exactly-once for what a handler does outside its transaction (mail, HTTP: append an event to the outbox
//! instead); order between aggregates; recognising a producer's second copy that is older than
//! `retention.inbox`.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "jemalloc")]
mod allocator;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
mod consumer;
pub mod pipeline {
    //! The traits that a database is asked by, for code over any of them.

    /// Bounds of generic code, and what building a consumer fails with.
    pub mod port {
        pub use inbox_store::{Finding, OpenError, Queues, Savepoint, Sessions, Store};
    }
}
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("no database is on: enable the feature `postgres` or `sqlite` of inbox-consumer");

pub use consumer::{BuildError, Consumer, ConsumerBuilder, Ended, migrate};
#[doc(inline)]
pub use inbox_handler::{
    BatchHandler, Event, Fault, GapEnd, Handler, HandlerError, HandlerResult, Routes, SavepointTx,
    Schedule, Statement, Tx, VersionPolicy, statement,
};
#[cfg(feature = "intake")]
#[doc(inline)]
pub use inbox_intake::Intake;
#[doc(inline)]
pub use inbox_runtime::telemetry;
