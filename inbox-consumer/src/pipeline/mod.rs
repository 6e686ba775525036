//! The loop that obeys the engine, and the transaction.

pub mod port;

mod delivery;

pub use delivery::Delivery;
