//! The event envelope, its ids and codecs: what producers of an outbox and consumers with an inbox
//! have in common. No Kafka client, no runtime, no clock but the one in a new id.
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
//! use outbox_core::{Aggregate, Decode, Json, OutboxEvent, Reader};
//!
//! let order = Aggregate::new("Order", "1001")?;
//! let sent = OutboxEvent::new("OrderPaid", &order, &250)?;
//!
//! let reader = Reader::own(1 << 20);
//! let read = reader.read("orders", 0, 17, &sent.record())?;
//! assert_eq!(&read, sent.envelope());
//! let amount: i64 = Json.decode(&read.payload.unwrap_or_default())?;
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
//! # Where things are
//!
//! The SQL of the outbox table belongs to `src/store/` and to no other file here: neither events nor
//! readers know of a database.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod header_names;

mod codec;
mod envelope;
mod id;
mod outbox_event;
mod problem;
mod read;
mod record;
mod text;

pub use codec::{CodecError, Decode, Encode, Json, JsonFault};
pub use envelope::{Aggregate, AggregateError, Envelope};
pub use id::{EventId, IdError};
pub use outbox_event::{OutboxEvent, OutboxEventError};
pub use problem::{
    AGGREGATE_ID_BYTES_MAX, AGGREGATE_TYPE_BYTES_MAX, EVENT_TYPE_BYTES_MAX, ID_BYTES_MAX, Problem,
    SOURCE_ID_BYTES_MAX,
};
pub use read::{
    Part, Pointer, ReadError, ReadRules, Reader, RulesError, Source, SourceError, Sources,
};
pub use record::{Header, Record};
pub use text::Text;
