//! All tests of this package, in one binary: each further one would link librdkafka again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod codecs;
mod corpus;
mod intake_sqlite;
mod programs;
mod services;
mod tidy;
