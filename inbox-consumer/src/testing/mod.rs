//! What tests need: a broker without a broker, and the conformance suite for stores.

pub mod broker;
pub mod conformance;
