//! The headers of an event: the one table.
//!
//! | header | value | written | read by [`Reader::own`](crate::Reader::own) |
//! |---|---|---|---|
//! | `event_id` | the id as a UUID; readers take any text | always | required |
//! | `event_type` | text | always | required |
//! | `aggregate_type` | text | always | else the topic's name |
//! | `aggregate_id` | text | never: the record key is the aggregate id | before the record key; a record with neither is an aggregate of its own |
//! | `aggregate_version` | decimal, 64 bits | if set | optional |
//! | `occurred_at` | milliseconds since 1970, decimal; readers take RFC 3339 as well | always | optional |
//! | `schema_version` | decimal, 32 bits | if set | optional |
//! | `dedup_key` | text: the key that the event is the only one of in its outbox | if set | handed on |
//! | `correlation_id` | text: the conversation an event belongs to | if set | handed on |
//! | `causation_id` | the id of the event that led to this one | if set | handed on |
//! | `traceparent` | W3C Trace Context | if set | handed on |
//! | `tracestate` | W3C Trace Context | if set | handed on |
//!
//! Values are UTF-8. When a name occurs more than once, the last one counts, as in Kafka's own
//! clients. A null or empty value counts as absent. Everything else in the headers is the user's.

/// The event's id.
pub const EVENT_ID: &str = "event_id";
/// The event's type.
pub const EVENT_TYPE: &str = "event_type";
/// The type of its aggregate.
pub const AGGREGATE_TYPE: &str = "aggregate_type";
/// The id of its aggregate, when the record key is something else.
pub const AGGREGATE_ID: &str = "aggregate_id";
/// The aggregate's version after the event.
pub const AGGREGATE_VERSION: &str = "aggregate_version";
/// When it happened, in milliseconds since 1970.
pub const OCCURRED_AT: &str = "occurred_at";
/// The version of the payload's schema.
pub const SCHEMA_VERSION: &str = "schema_version";
/// The key that the event is the only one of in its outbox. A header of this name that was added comes behind it, and counts.
pub const DEDUP_KEY: &str = "dedup_key";
/// The conversation an event belongs to.
pub const CORRELATION_ID: &str = "correlation_id";
/// The id of the event that led to this one.
pub const CAUSATION_ID: &str = "causation_id";
/// W3C Trace Context: the parent span.
pub const TRACEPARENT: &str = "traceparent";
/// W3C Trace Context: vendors' state.
pub const TRACESTATE: &str = "tracestate";

/// The headers that [`OutboxEvent`](crate::OutboxEvent) fills from the event itself; nobody else
/// may set them.
pub const RESERVED: [&str; 7] = [
    EVENT_ID,
    EVENT_TYPE,
    AGGREGATE_TYPE,
    AGGREGATE_ID,
    AGGREGATE_VERSION,
    OCCURRED_AT,
    SCHEMA_VERSION,
];
