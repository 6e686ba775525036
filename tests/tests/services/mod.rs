//! Tests on real services. `cargo xtask check` leaves out everything below `services::`.

mod acting;
mod commands;
mod first;
mod harness;
mod transaction_ended;
mod transaction_swallowed;
