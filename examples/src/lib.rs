//! Lessons: each is one file that shows one thing, runs it on a real Kafka and a real PostgreSQL, and
//! asserts what came of it. Read one from its top; run it, with services started for you, by
//! `cargo xtask test examples::NAME` (names as below). The quick start is beside them, in `bin/`.
//!
//! | lesson | shows |
//! |---|---|
//! | [`orders`] | a web service that appends events in its own transaction, a relay, a consumer that answers with events of its own |
//! | [`batch`] | a handler for whole runs of events, for SQL that works on sets |
//! | [`retries`] | what happens to an event that fails: quick attempts, parking, release by a schedule, and what waits behind it |
//! | [`state`] | handlers with settings, clients and caches, and what must not be kept in a handler |
//! | [`embedded`] | a consumer inside a web service, and one shutdown for both |
//! | [`two_consumers`] | two consumers of one topic, each with its own inbox |
//! | [`testing_a_handler`] | a handler under test, without Kafka |

pub mod batch;
pub mod embedded;
pub mod orders;
pub mod retries;
pub mod state;
pub mod testing_a_handler;
pub mod two_consumers;

mod http;
mod running;

/// Whatever ends a lesson early.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
