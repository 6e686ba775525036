//! Tests on real services. `cargo xtask check` leaves out everything below `services::`.

mod acting;
mod bad_input;
mod checker;
mod commands;
mod declared;
mod examples;
mod findings;
mod findings_owners;
mod first;
mod group_faults;
mod group_members;
mod harness;
mod inbox_identity;
mod inbox_retention;
mod log_records;
mod log_start;
mod outbox_append;
mod outbox_consumer;
mod outbox_tables;
mod runtime_order;
mod runtime_support;
mod transaction_commit;
mod transaction_deadline;
mod transaction_ended;
mod transaction_outage;
mod transaction_swallowed;
