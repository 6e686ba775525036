//! Tests on real services. `cargo xtask check` leaves out everything below `services::`.

mod first;
mod harness;
