//! What tests need: [`HandlerTest`] for your handlers, a broker without a broker, and the conformance suite for
//! stores.

pub mod broker;
mod handler;
#[doc(hidden)]
pub mod inside;

pub use inbox_conformance as conformance;

pub use handler::{
    Aggregate, EventId, HandlerTest, Header, OutboxEvent, Outcome, Record, TestError,
};
