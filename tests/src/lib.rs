//! What tests on real services share: where the services are, topics and schemas of one's own,
//! records, a proxy that spoils connections, servers that may be hurt, child processes, waiting.
//!
//! `cargo xtask test` starts the services and says where they are. A test starts with
//! [`Services::from_env`]; everything here panics with a sentence when it cannot do what it says,
//! which is how a test fails.

mod alerts;
mod arrivals;
mod certificates;
mod child;
pub mod debezium;
pub mod deploy;
#[cfg(doctest)]
mod documents;
pub mod drill;
mod eventually;
mod executable;
mod failover;
pub mod intake;
mod lesson;
mod markdown;
mod outbox;
mod own_kafka;
mod own_pgbouncer;
mod own_postgres;
mod producer;
mod proxy;
mod rates;
mod receiver;
pub mod registry;
pub mod relay_chaos;
pub mod relay_webhooks;
pub mod rolling;
mod run_folder;
mod schema;
mod services;
pub mod soak;
mod stage;
mod supervised;
mod topic;

pub use alerts::{Alert, RULES, RULES_OF_RELAYS, Scrapes};
pub use arrivals::{Arrival, arrivals, copies, firsts};
pub use certificates::{Authority, Certificate};
pub use child::Worker;
pub use eventually::{SOON, eventually, until_some};
pub use executable::{Executable, limit_memory};
pub use failover::{Failover, in_rounds};
pub use lesson::{Lesson, Took, missing_line};
pub use markdown::{Fence, Markdown};
pub use outbox::{Outbox, RunningRelay, counted as counted_event, parked_row};
pub use own_kafka::OwnKafka;
pub use own_pgbouncer::OwnPgBouncer;
pub use own_postgres::OwnPostgres;
pub use producer::{Ending, Producer, Record};
pub use proxy::{Proxy, Trap};
pub use rates::{Ratio, Spread};
pub use receiver::{ReceivedSpan, SpanReceiver};
pub use schema::Schema;
pub use services::{Services, skip, unique};
pub use stage::{Count, CountAll, Counter, Running, Stage, broken, counted, effect};
pub use supervised::Supervised;
pub use topic::Topic;

/// Servers as the project's own commands start them.
pub use xtask::server::{KafkaSettings, Listener, Process, StopMode};
