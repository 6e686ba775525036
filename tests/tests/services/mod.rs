//! Tests on real services. `cargo xtask check` leaves out everything below `services::`.

mod acting;
mod bad_input;
mod commands;
mod findings;
mod findings_owners;
mod first;
mod harness;
mod transaction_ended;
mod transaction_swallowed;
