//! The event envelope, its ids and codecs, and the outbox: events appended in your own SQL transaction.
//! No Kafka client, no runtime, no clock but the one in a new id.
//!
//! # Writing
//!
//! An [`OutboxEvent`] is an event about to be written: envelope, headers and payload, with an id of
//! its own from the start, so that every later copy of it is recognised.
//!
//! ```
//! use outbox_core::{Aggregate, OutboxEvent};
//!
//! #[derive(serde::Serialize)]
//! struct OrderPaid {
//!     amount: i64,
//! }
//!
//! let order = Aggregate::new("Order", "1001")?;
//! let event = OutboxEvent::new("OrderPaid", &order, &OrderPaid { amount: 250 })?
//!     .with_aggregate_version(3)
//!     .with_header("correlation_id", "checkout-77")?;
//!
//! let record = event.record();
//! assert_eq!(record.key.as_deref(), Some(&b"1001"[..]), "the key is the aggregate id");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading
//!
//! A [`Reader`] turns a [`Record`] into an [`Envelope`]. [`Reader::own`] reads what
//! [`OutboxEvent`] writes (the table is in [`header_names`]):
//!
//! ```
//! use outbox_core::{Aggregate, Decode, Json, OutboxEvent, Payload, Reader};
//!
//! let order = Aggregate::new("Order", "1001")?;
//! let sent = OutboxEvent::new("OrderPaid", &order, &250)?;
//!
//! let reader = Reader::own(1 << 20);
//! let read = reader.read("orders", 0, 17, &sent.record())?;
//! assert_eq!(&read, sent.envelope());
//! let amount: i64 = Json.decode(&Payload::of(&read, &sent.record().headers, "orders"))?;
//! assert_eq!(amount, 250);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Other producers are read by saying where things are; see [`ReadRules`] and [`Source`]:
//!
//! ```
//! use outbox_core::{EventId, ReadRules, Reader, Record};
//!
//! let rules: ReadRules = serde_json::from_str(
//!     r#"{
//!         "id": "position",
//!         "type": ["header:type", "pointer:/meta/type"],
//!         "aggregate_id": "key",
//!         "aggregate_type": "value:Customer"
//!     }"#,
//! )?;
//! let record = Record {
//!     key: Some("c-7".into()),
//!     payload: Some(r#"{"meta": {"type": "Moved"}, "city": "Bath"}"#.into()),
//!     ..Record::default()
//! };
//! let event = Reader::new(rules, 1 << 20)?.read("customers", 2, 41, &record)?;
//! assert_eq!(event.event_type, "Moved");
//! assert_eq!(event.aggregate.to_string(), "Customer/c-7");
//! assert_eq!(event.event_id, EventId::at("customers", 2, 41)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A record that cannot be read gives a [`ReadError`], never a panic: one sentence for people and
//! one word for machines, and nothing of the payload in either.
//!
//! # Appending
//!
//! With the feature `postgres` or `sqlite`, `append` and `append_all` write events into the outbox
//! table on the connection or transaction that you give them: the event is there if and only if what it
//! tells is. A relay ships them. The tables come by `migrate`, or by a tool of your own from `print`.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use sqlx::{Connection, SqliteConnection};
//! # let mut conn = SqliteConnection::connect("sqlite::memory:").await?;
//! # outbox_core::migrate(&mut conn).await?;
//! # sqlx::raw_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)").execute(&mut conn).await?;
//! use outbox_core::{Aggregate, OutboxEvent};
//!
//! let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
//! sqlx::query("INSERT INTO orders (id, amount) VALUES (1001, 250)").execute(&mut *tx).await?;
//! let order = Aggregate::new("Order", "1001")?;
//! outbox_core::append(&mut *tx, &OutboxEvent::new("OrderPlaced", &order, &250)?).await?;
//! tx.commit().await?; // both, or neither
//! # let events: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_events").fetch_one(&mut conn).await?;
//! # assert_eq!(events, 1);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! On PostgreSQL it is the same, with `pool.begin().await?` for the transaction. In a handler of
//! inbox-consumer use `tx.append`, which also says what the event follows from.
//!
//! A relay ships the events of one aggregate in the order in which they were appended, provided that the
//! transactions that append for one aggregate wait for each other: they do when each changes or locks
//! the aggregate's row before it appends. Two transactions that append for one aggregate at the same time
//! and touch no common row have no order in the database either.
//!
//! # Late, and once
//!
//! An event may say when it is delivered at the earliest ([`OutboxEvent::with_deliver_after_ms`]), and what it is
//! the only event of ([`OutboxEvent::with_dedup_key`]): the second append of a key is left out, and the answer
//! says so.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use sqlx::{Connection, SqliteConnection};
//! # let mut conn = SqliteConnection::connect("sqlite::memory:").await?;
//! # outbox_core::migrate(&mut conn).await?;
//! # let next_week_ms = 1_800_000_000_000;
//! use outbox_core::{Aggregate, OutboxEvent};
//!
//! // An aggregate of its own: what comes behind a late event of an aggregate waits for it.
//! let reminder = Aggregate::new("Reminder", "1001")?;
//! let event = OutboxEvent::new("PaymentDue", &reminder, &250)?
//!     .with_deliver_after_ms(next_week_ms)?
//!     .with_dedup_key("payment-due/1001")?;
//! assert_eq!(outbox_core::append(&mut conn, &event).await?.rows(), 1);
//! assert_eq!(outbox_core::append(&mut conn, &event).await?.rows(), 0, "it is there already");
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Where things are
//!
//! The SQL of the outbox table belongs to `src/store/` and to no other file here: neither events nor
//! readers know of a database.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod header_names;

mod cause;
mod codec;
mod codec_error;
mod commit_mark;
mod decode_memory;
mod envelope;
mod header_json;
mod id;
mod outbox_event;
mod outbox_event_error;
mod payload;
mod problem;
mod read;
mod record;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod store;
mod text;
mod time;
mod topic_partition;
mod trace_context;
mod upcast;

pub use cause::Cause;
pub use codec::{Decode, Encode, Json, Preparation};
pub use codec_error::{CodecError, JsonFault};
pub use envelope::{Aggregate, AggregateError, Envelope};
pub use id::{EventId, IdError};
pub use outbox_event::{EVENT_BYTES_MAX, OutboxEvent};
pub use outbox_event_error::OutboxEventError;
pub use payload::Payload;
pub use problem::{
    AGGREGATE_ID_BYTES_MAX, AGGREGATE_TYPE_BYTES_MAX, DEDUP_KEY_BYTES_MAX, EVENT_TYPE_BYTES_MAX,
    ID_BYTES_MAX, Problem, SOURCE_ID_BYTES_MAX,
};
pub use read::{
    DebeziumRouter, IdScope, Part, Pointer, Preset, ReadError, ReadRules, Reader, RouterError,
    RuleKeys, RulesError, Source, SourceError, Sources, TimeUnit, TopicPattern,
    cloud_event_of_request,
};
pub use record::{Header, Record};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use store::{
    AppendError, Appended, Outbox, OutboxConnection, OutboxDatabase, append, append_all, migrate,
    print, print_notify_trigger, schema_newest, schema_version, set_notify_trigger,
};
pub use text::Text;
pub use topic_partition::TopicPartition;
pub use upcast::Upcasts;

/// What the consumer and the relay share, for them alone: no promise of stability, any version may change it.
#[doc(hidden)]
pub mod internal {
    #[cfg(feature = "sqlite")]
    pub use crate::store::private;
    #[cfg(feature = "postgres")]
    pub use crate::store::{NOTIFY_CHANNEL, keeps_statements};
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub use crate::store::{
        for_role, migration, objects, quotable, rights, said, show_values, unquoted,
    };
    pub use crate::{
        commit_mark::CommitMark,
        decode_memory::{DECODED_BYTES_MAX, DecodeMemory},
        header_json::{HeadersError, headers_from_json, headers_to_json},
        read::{
            Proposal, ReadAs, RequestPlace, detect, micros_of, reads_spec_version, request_pointer,
        },
        record::Excerpt,
        time::{day, days, is_written, micros, rfc3339},
        trace_context::TraceParent,
    };
}
