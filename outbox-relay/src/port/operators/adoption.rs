//! Rows of another outbox table that are copied into ours.

use crate::port::{FeedError, Sessions};

/// Another outbox table, and what its columns are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableMapping {
    /// Its name as it is typed: with its schema's, and quoted where it has to be.
    pub table: String,
    /// The columns by what they hold.
    pub id: String,
    pub key: String,
    pub event_type: String,
    pub payload: String,
    pub timestamp: Option<String>,
    pub aggregate_type: String,
    /// What else becomes of columns.
    pub further: Vec<FurtherColumn>,
    /// What Debezium would make of the row is told with it; `None`: further columns become headers.
    pub debezium: Option<DebeziumNeeds>,
}

/// A column that is none of the event's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FurtherColumn {
    pub name: String,
    /// Its name in the record.
    pub alias: String,
    /// It names the partition.
    pub partition: bool,
    /// Its schema is sent with it.
    pub schema_sent: bool,
}

/// What the converters ask of columns.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of the connector")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DebeziumNeeds {
    /// The payload is sent as bytes.
    pub bytes: bool,
    /// So is a payload of bytes, as text of base64.
    pub any_payload: bool,
    /// The payload's schema goes with it.
    pub payload_schema: bool,
    /// The key's goes with it.
    pub key_schema: bool,
}

/// How a table is adopted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Adoption {
    /// Its name with its schema's.
    pub table: String,
    /// The statements that have each new row copied.
    pub begin: String,
    /// Those that end it.
    pub end: String,
    /// What is to be thought about.
    pub doubts: Vec<String>,
}

/// Tables that are adopted.
pub(crate) trait Adoptions: Sessions {
    /// How a table is adopted, or what keeps it from that.
    fn adoption(
        session: &mut Self::Session,
        mapping: &TableMapping,
    ) -> impl Future<Output = Result<Result<Adoption, Vec<String>>, FeedError>> + Send;
    /// Carries its statements out, in one transaction. Answers where the database's log stands after it, where there is one.
    fn carry_out(
        session: &mut Self::Session,
        statements: String,
    ) -> impl Future<Output = Result<Option<String>, FeedError>> + Send;
}
