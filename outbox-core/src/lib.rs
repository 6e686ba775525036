//! The event envelope, its ids and codecs: what producers and consumers share.
//!
//! A producer makes an [`OutboxEvent`]; on the wire it is a [`Record`] with the headers of
//! [`header_names`]; a consumer's [`Reader`] makes an [`Envelope`] of it. Foreign producers are read
//! through [`ReadRules`].
#![forbid(unsafe_code)]

mod codec;
mod envelope;
pub mod header_names;
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
pub use read::{IdSource, ReadError, ReadRules, Reader, Source};
pub use record::{Header, Record};
pub use text::Text;
