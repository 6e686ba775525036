//! What tests of consumers need.

pub mod broker;
