//! What users of `inbox-consumer` implement, and what a handler is called with.
//!
//! - [`Handler`] and [`BatchHandler`] take events; [`HandlerError`] says what a failure means.
//! - [`Tx`] is the transaction that a handler writes through.
//! - [`Routes`] says which handler takes which type.
//!
//! Use it through `inbox-consumer`, which exports all of it under these names. It knows neither the
//! Kafka client nor the loop that calls handlers. What is hidden from this page is for
//! `inbox-runtime` and `inbox-consumer` alone, and changes with them.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod calls;
mod delivery;
mod handler;
mod router;
mod run_event;
mod trace;
mod tx;

#[cfg(test)]
mod trace_tests;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("no database is on: enable the feature `postgres` or `sqlite` of inbox-handler");

pub use handler::{BatchHandler, Event, Fault, Handler, HandlerError, HandlerResult};
pub use router::{GapEnd, Routes, Schedule, VersionPolicy};
pub use tx::{SavepointTx, Statement, Tx, statement};

use delivery::Delivery;

/// What calls handlers, for `inbox-runtime` and `inbox-consumer` alone: no promise of stability, any version may
/// change it.
#[doc(hidden)]
pub mod internal {
    #[cfg(feature = "testing")]
    pub use crate::router::gather_columns;
    pub use crate::{
        calls::{Calls, OpenRun},
        delivery::Delivery,
        handler::panic_text,
        router::{
            CallFailure, CodecsStarted, Declared, DeclaredMode, DecodedPayloads, DecodedRun,
            PayloadCodec, RouteLookup, RouteTable, RunEnd, RunEvent, VersionPlace,
        },
    };
}
