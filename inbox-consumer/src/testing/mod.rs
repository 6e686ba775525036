//! What tests of consumers and of stores need.

pub mod broker;
pub mod conformance;
