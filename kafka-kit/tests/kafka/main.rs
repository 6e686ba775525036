//! The client against librdkafka's mock cluster, which is always there, and against a real Kafka,
//! which `INBOX_TEST_KAFKA` names (a bootstrap list). Each test that can runs against both, and with
//! both group protocols.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::print_stderr, reason = "what was skipped has to be seen")]

mod commits;
mod endings;
mod groups;
mod holding;
mod member;
mod reading;
mod real;
mod world;
