//! Lessons: each is a program in `examples/`, one file that shows one thing on a real Kafka and a real
//! PostgreSQL, says what it sees, and asserts it. Read one from its top, and run it:
//!
//! ```sh
//! cargo run -p examples --example orders
//! ```
//!
//! | lesson | shows |
//! |---|---|
//! | `orders` | a web service that appends events in its own transaction, a relay, a consumer that answers with events of its own |
//! | `batch` | a handler for whole runs of events, for SQL that works on sets |
//! | `retries` | what happens to an event that fails: quick attempts, parking, release by a schedule, and what waits behind it |
//! | `state` | handlers with settings, clients and caches, and what must not be kept in a handler |
//! | `embedded` | a consumer inside a web service, and one shutdown for both |
//! | `five_times` | each delivery five times, over two processes one of which dies: one effect each |
//! | `out_of_order` | events out of order, absorbed by their versions: the newest wins, or each waits for the one before it |
//! | `read_model` | changes of another service's table, as Debezium's connector sends them, into a read model |
//! | `two_consumers` | two consumers of one topic, each with its own inbox |
//! | `plain_sql` | a service in Python that appends by plain SQL: headers, an event that comes late, a key against second copies, and the trigger that wakes the relay |
//! | `testing_a_handler` | a handler under test, without Kafka and PostgreSQL |
//! | `webhook` | a relay that delivers by HTTP, signed, and a receiver that knows copies: outages, refusals, a relay that dies |
//! | `intake` | the same relay, and an intake as receiver: each call comes five times, one effect each |
//! | `mail` | a relay with handlers in its process, for a database and for mail: waking, retries in order, a shutdown |
//!
//! A lesson uses the Kafka and the PostgreSQL that `INBOX_TEST_KAFKA` (a bootstrap list) and
//! `INBOX_TEST_POSTGRES` (the URL of a user who may create schemas) name, else those that
//! `cargo xtask services up` has left running; else it starts both in a temporary folder, and stops them at its
//! end. What it creates there has names of its own, and is removed at the end of a lesson that succeeds.
//!
//! In here is what every lesson needs and none is about.

mod error;
mod http;
mod running;
mod services;
mod smtp;

/// The folder of this package, with the files that a lesson needs beside its source.
pub const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

pub use error::Error;
pub use http::{WebServer, request, request_with};
pub use running::{RunningConsumer, RunningRelay, configure, send, wait_until};
pub use services::Services;
pub use smtp::{Mail, MailServer};
