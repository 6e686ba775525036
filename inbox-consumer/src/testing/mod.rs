//! What tests need: [`HandlerTest`] for your handlers, and a broker without a broker.

pub mod broker;
mod handler;
#[doc(hidden)]
pub mod inside;

/// What [`HandlerTest`] asks of a database besides.
pub mod conformance {
    pub use inbox_conformance::Probe;
}

pub use handler::{
    Aggregate, EventId, HandlerTest, Header, OutboxEvent, Outcome, Record, TestError,
};
