//! Tests on real services. `cargo xtask check` leaves out everything below `services::`.

mod first;
mod group_faults;
mod group_members;
mod harness;
mod log_records;
mod log_start;
mod runtime_order;
mod runtime_support;
