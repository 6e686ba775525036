//! Tests on real services. `cargo xtask check` leaves out everything below `services::`.

mod acting;
mod commands;
mod first;
mod harness;
mod inbox_identity;
mod inbox_retention;
mod transaction_commit;
mod transaction_deadline;
mod transaction_ended;
mod transaction_outage;
mod transaction_swallowed;
