//! Values and their schemas, as Kafka Connect has them.

use bytes::Bytes;

/// What a value is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Schema {
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<u8>,
}

/// Its type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Boolean,
    Int16,
    Int32,
    Int64,
    Float,
    Double,
    String,
    Bytes,
    Array(Box<Schema>),
    Struct(Vec<(String, Schema)>),
}

/// A value. Those of a struct stand in the order of its fields.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Int(i64),
    Float(f32),
    Double(f64),
    String(String),
    Bytes(Bytes),
    Array(Vec<Self>),
    Struct(Vec<Self>),
}

impl Schema {
    /// One without a name, whose values may be null.
    pub(crate) fn optional(kind: Kind) -> Self {
        Self { kind, optional: true, name: None, version: None }
    }

    /// The type of a column by its name in PostgreSQL, `!` behind it where no value is null; `None`: there is none.
    pub(crate) fn of_column(column: &str) -> Option<Self> {
        let (column, optional) = match column.strip_suffix('!') {
            Some(column) => (column, false),
            None => (column, true),
        };
        let (kind, name) = match column {
            "bool" => (Kind::Boolean, None),
            "int2" => (Kind::Int16, None),
            "int4" => (Kind::Int32, None),
            "int8" => (Kind::Int64, None),
            "float4" => (Kind::Float, None),
            "float8" => (Kind::Double, None),
            "text" | "varchar" | "bpchar" => (Kind::String, None),
            "bytea" => (Kind::Bytes, None),
            "uuid" => (Kind::String, Some("io.debezium.data.Uuid")),
            "json" | "jsonb" => (Kind::String, Some("io.debezium.data.Json")),
            "timestamptz" => (Kind::String, Some("io.debezium.time.ZonedTimestamp")),
            "timestamp" => (Kind::Int64, Some("io.debezium.time.MicroTimestamp")),
            "timestamp(3)" => (Kind::Int64, Some("io.debezium.time.Timestamp")),
            "date" => (Kind::Int32, Some("io.debezium.time.Date")),
            _ => return None,
        };
        let version = name.map(|_| 1);
        Some(Self { kind, optional, name: name.map(str::to_owned), version })
    }

    /// About how many bytes it takes.
    pub(crate) fn size(&self) -> usize {
        let parts: usize = match &self.kind {
            Kind::Array(items) => items.size(),
            Kind::Struct(fields) => {
                fields.iter().map(|(name, schema)| name.len() + schema.size()).sum()
            }
            _ => 0,
        };
        size_of::<Self>() + self.name.as_ref().map_or(0, String::len) + parts
    }

    /// Whether it takes a value: what Connect checks when a struct is filled.
    pub(crate) fn takes(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (_, Value::Null) => self.optional,
            (Kind::Boolean, Value::Boolean(_))
            | (Kind::Int16 | Kind::Int32 | Kind::Int64, Value::Int(_))
            | (Kind::Float, Value::Float(_))
            | (Kind::Double, Value::Double(_))
            | (Kind::String, Value::String(_))
            | (Kind::Bytes, Value::Bytes(_))
            | (Kind::Struct(_), Value::Struct(_)) => true,
            (Kind::Array(items), Value::Array(values)) => {
                values.iter().all(|value| items.takes(value))
            }
            _ => false,
        }
    }
}
