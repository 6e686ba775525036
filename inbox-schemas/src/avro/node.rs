//! A schema as a list of nodes, in which names are places: what is read by it looks nothing up.

use std::collections::HashMap;

use apache_avro::schema::{InnerDecimalSchema, Name, NamespaceRef, Schema, UuidSchema};

/// The place of a node.
pub(super) type At = usize;

/// A part of a schema.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(Vec<Box<str>>),
    Array(At),
    Map(At),
    Union(Vec<At>),
    Record(Vec<(Box<str>, At)>),
    Decimal {
        fixed: Option<usize>,
        scale: usize,
    },
    BigDecimal,
    Uuid {
        text: bool,
        fixed: bool,
    },
    Date,
    /// With so many of them in a second.
    Time {
        per_second: i64,
    },
    Timestamp {
        per_second: i64,
        local: bool,
    },
    Duration,
}

/// All nodes of a schema.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    root: At,
}

impl Nodes {
    /// Of a schema, and of those that it refers to.
    pub(super) fn of(schema: &Schema, others: &[Schema]) -> Result<Self, String> {
        let mut builder = Builder::default();
        for other in others {
            builder.add(other, None)?;
        }
        let root = builder.add(schema, None)?;
        Ok(Self { nodes: builder.nodes, root })
    }

    pub(super) fn root(&self) -> At {
        self.root
    }

    pub(super) fn get(&self, at: At) -> &Node {
        &self.nodes[at]
    }
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    names: HashMap<Name, At>,
}

impl Builder {
    fn add(&mut self, schema: &Schema, namespace: NamespaceRef<'_>) -> Result<At, String> {
        if let Schema::Ref { name } = schema {
            let name = name.fully_qualified_name(namespace);
            let known = self.names.get(&*name).copied();
            return known.ok_or_else(|| format!("it refers to {name}, which is not defined"));
        }
        // First, so that what is inside can refer to it.
        let at = self.nodes.len();
        self.nodes.push(Node::Null);
        let mut inside = namespace.map(str::to_owned);
        if let Some(name) = schema.name() {
            let name = name.fully_qualified_name(namespace).into_owned();
            inside = name.namespace().map(str::to_owned);
            self.names.insert(name, at);
        }
        self.nodes[at] = self.node(schema, inside.as_deref())?;
        Ok(at)
    }

    fn node(&mut self, schema: &Schema, namespace: NamespaceRef<'_>) -> Result<Node, String> {
        const MILLIS: i64 = 1_000;
        const MICROS: i64 = 1_000_000;
        const NANOS: i64 = 1_000_000_000;
        let timestamp = |per_second, local| Node::Timestamp { per_second, local };
        Ok(match schema {
            Schema::Null | Schema::Ref { .. } => Node::Null,
            Schema::Boolean => Node::Boolean,
            Schema::Int => Node::Int,
            Schema::Long => Node::Long,
            Schema::Float => Node::Float,
            Schema::Double => Node::Double,
            Schema::Bytes => Node::Bytes,
            Schema::String => Node::Text,
            Schema::Array(array) => Node::Array(self.add(&array.items, namespace)?),
            Schema::Map(map) => Node::Map(self.add(&map.types, namespace)?),
            Schema::Union(union) => {
                let branches = union.variants().iter().map(|branch| self.add(branch, namespace));
                Node::Union(branches.collect::<Result<_, _>>()?)
            }
            Schema::Record(record) => {
                let fields = record.fields.iter().map(|field| {
                    Ok((field.name.as_str().into(), self.add(&field.schema, namespace)?))
                });
                Node::Record(fields.collect::<Result<_, String>>()?)
            }
            Schema::Enum(of) => {
                Node::Enum(of.symbols.iter().map(|it| it.as_str().into()).collect())
            }
            Schema::Fixed(fixed) => Node::Fixed(fixed.size),
            Schema::Decimal(decimal) => Node::Decimal {
                scale: decimal.scale,
                fixed: match &decimal.inner {
                    InnerDecimalSchema::Bytes => None,
                    InnerDecimalSchema::Fixed(fixed) => Some(fixed.size),
                },
            },
            Schema::BigDecimal => Node::BigDecimal,
            Schema::Uuid(of) => Node::Uuid {
                text: matches!(of, UuidSchema::String),
                fixed: matches!(of, UuidSchema::Fixed(_)),
            },
            Schema::Date => Node::Date,
            Schema::TimeMillis => Node::Time { per_second: MILLIS },
            Schema::TimeMicros => Node::Time { per_second: MICROS },
            Schema::TimestampMillis => timestamp(MILLIS, false),
            Schema::TimestampMicros => timestamp(MICROS, false),
            Schema::TimestampNanos => timestamp(NANOS, false),
            Schema::LocalTimestampMillis => timestamp(MILLIS, true),
            Schema::LocalTimestampMicros => timestamp(MICROS, true),
            Schema::LocalTimestampNanos => timestamp(NANOS, true),
            Schema::Duration(_) => Node::Duration,
        })
    }
}
