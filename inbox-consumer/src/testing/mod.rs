//! What tests need: [`HandlerTest`] for your handlers, and a broker without a broker.

pub mod broker;
mod handler;
#[doc(hidden)]
pub mod inside;

pub mod conformance {
    //! For code that tests handlers on any database.

    pub use inbox_store::Probe;
}

pub use handler::{
    Aggregate, EventId, HandlerTest, Header, OutboxEvent, Outcome, Record, TestError,
};
