//! The soak: a topic full of events, consumers that are killed and frozen, and a checker of its own.

pub mod checker;
pub mod fleet;
pub mod plan;
pub mod run;
