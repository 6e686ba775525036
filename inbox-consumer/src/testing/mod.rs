//! What tests need: the conformance suite for stores.

pub mod conformance;
