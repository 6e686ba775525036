//! The reader of payloads: each length is looked at before anything is taken for it, and what is cut off or left over is
//! refused.

use serde::Serialize;
use serde_json::Value;

use super::{
    node::{At, Node, Nodes},
    text,
};
use crate::{
    budget::{TOO_LONG, text_bytes_max},
    wire::number,
};

/// The deepest nesting: less than what JSON may have.
const DEPTH_MAX: usize = 100;

/// What is wrong with a payload. It shows none of it.
pub(super) type Fault = &'static str;

const CUT_OFF: Fault = "it is truncated";

/// What values take in the trees that resolve a payload to another schema: of `apache-avro`, twice, and of JSON.
const VALUE: usize = 256;
const RECORD: usize = 1024;

/// A payload as JSON, and what it would take as a tree of values.
pub(super) fn json(nodes: &Nodes, body: &[u8]) -> Result<(Vec<u8>, usize), Fault> {
    let (bytes_max, json) = (text_bytes_max(body), Vec::new());
    let mut reader = Reader { nodes, rest: body, json, bytes_max, tree: 0 };
    reader.value(nodes.root(), 0)?;
    if !reader.rest.is_empty() {
        return Err("it has trailing bytes");
    }
    Ok((reader.json, reader.tree))
}

/// It writes JSON, and builds nothing: what a value takes in memory follows the shape of the payload, not its length.
struct Reader<'a> {
    nodes: &'a Nodes,
    rest: &'a [u8],
    json: Vec<u8>,
    bytes_max: usize,
    tree: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, at: At, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err("it is nested too deep");
        }
        let nodes = self.nodes;
        let node = nodes.get(at);
        self.tree += VALUE;
        match node {
            Node::Array(items) => self.array_of(*items, depth),
            Node::Map(values) => self.map_of(*values, depth),
            Node::Record(fields) => self.record_of(fields, depth),
            // A union is its branch.
            Node::Union(branches) => {
                let branch = usize::try_from(self.long()?).ok().and_then(|n| branches.get(n));
                let branch = branch.ok_or("a union has a branch that its schema lacks")?;
                self.value(*branch, depth + 1)
            }
            node => {
                let value = self.scalar(node)?;
                self.write(&value)
            }
        }
    }

    fn scalar(&mut self, node: &Node) -> Result<Value, Fault> {
        Ok(match node {
            Node::Null | Node::Array(_) | Node::Map(_) | Node::Record(_) | Node::Union(_) => {
                Value::Null
            }
            Node::Boolean => match self.bytes(1)? {
                [0] => false.into(),
                [1] => true.into(),
                _ => return Err("a boolean is neither 0 nor 1"),
            },
            Node::Int => self.int()?.into(),
            Node::Long => self.long()?.into(),
            Node::Float => text::short_float(f32::from_le_bytes(self.array()?)),
            Node::Double => text::float(f64::from_le_bytes(self.array()?)),
            Node::Bytes => text::base64(self.sized()?),
            Node::Text => self.text()?.into(),
            Node::Fixed(size) => text::base64(self.bytes(*size)?),
            Node::Enum(symbols) => {
                let symbol = usize::try_from(self.int()?).ok().and_then(|n| symbols.get(n));
                (&**symbol.ok_or("an enum has a symbol that its schema lacks")?).into()
            }
            Node::Decimal { fixed, scale } => {
                let unscaled = match fixed {
                    Some(size) => self.bytes(*size)?,
                    None => self.sized()?,
                };
                text::decimal(unscaled, *scale)?
            }
            Node::BigDecimal => big_decimal(self.sized()?)?,
            Node::Uuid { text: true, .. } => text::uuid_of_text(self.text()?)?,
            Node::Uuid { fixed: true, .. } => text::uuid(self.bytes(16)?)?,
            Node::Uuid { .. } => text::uuid(self.sized()?)?,
            Node::Date => text::date(self.int()?)?,
            Node::Time { per_second: 1_000 } => text::time(self.int()?.into(), 1_000)?,
            Node::Time { per_second } => text::time(self.long()?, *per_second)?,
            Node::Timestamp { per_second, local } => {
                text::timestamp(self.long()?, *per_second, *local)?
            }
            Node::Duration => {
                let mut part = || Ok::<_, Fault>(u32::from_le_bytes(self.array()?));
                text::duration([part()?, part()?, part()?])
            }
        })
    }

    fn record_of(&mut self, fields: &[(Box<str>, At)], depth: usize) -> Result<(), Fault> {
        self.tree += RECORD;
        self.put(b'{')?;
        for (at, (name, field)) in fields.iter().enumerate() {
            self.tree += 2 * name.len();
            self.name(at > 0, name)?;
            self.value(*field, depth + 1)?;
        }
        self.put(b'}')
    }

    fn array_of(&mut self, items: At, depth: usize) -> Result<(), Fault> {
        self.put(b'[')?;
        let mut is_first = true;
        loop {
            let count = self.block()?;
            if count == 0 {
                return self.put(b']');
            }
            for _ in 0..count {
                if !std::mem::replace(&mut is_first, false) {
                    self.put(b',')?;
                }
                self.value(items, depth + 1)?;
            }
        }
    }

    fn map_of(&mut self, values: At, depth: usize) -> Result<(), Fault> {
        self.tree += RECORD;
        self.put(b'{')?;
        let mut is_first = true;
        loop {
            let count = self.block()?;
            if count == 0 {
                return self.put(b'}');
            }
            for _ in 0..count {
                let name = self.text()?;
                self.tree += 2 * name.len();
                self.name(!std::mem::replace(&mut is_first, false), name)?;
                self.value(values, depth + 1)?;
            }
        }
    }

    fn name(&mut self, is_next: bool, name: &str) -> Result<(), Fault> {
        if is_next {
            self.put(b',')?;
        }
        self.write(name)?;
        self.put(b':')
    }

    fn write(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Fault> {
        serde_json::to_writer(&mut self.json, value)
            .map_err(|_| "it cannot be represented in JSON")?;
        self.bounded()
    }

    fn put(&mut self, byte: u8) -> Result<(), Fault> {
        self.json.push(byte);
        self.bounded()
    }

    fn bounded(&self) -> Result<(), Fault> {
        if self.json.len() > self.bytes_max { Err(TOO_LONG) } else { Ok(()) }
    }

    /// How many items a block has; 0 ends it.
    fn block(&mut self) -> Result<u64, Fault> {
        let count = self.long()?;
        if count < 0 {
            // Its length in bytes, for those that pass over it.
            self.long()?;
        }
        Ok(count.unsigned_abs())
    }

    fn long(&mut self) -> Result<i64, Fault> {
        number(&mut self.rest).ok_or("a number is truncated, or too long")
    }

    fn int(&mut self) -> Result<i32, Fault> {
        i32::try_from(self.long()?).map_err(|_| "an int has more than 32 bits")
    }

    /// Bytes behind their length.
    fn sized(&mut self) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(self.long()?).map_err(|_| "a length is negative")?;
        self.bytes(length)
    }

    fn text(&mut self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.sized()?).map_err(|_| "a string is not UTF-8")
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.bytes(N)?.try_into().map_err(|_| CUT_OFF)
    }
}

/// Its digits behind their length, and its scale.
fn big_decimal(bytes: &[u8]) -> Result<Value, Fault> {
    let mut rest = bytes;
    let mut next = || number(&mut rest);
    let length = next().and_then(|length| usize::try_from(length).ok()).ok_or(CUT_OFF)?;
    let (digits, mut rest) = rest.split_at_checked(length).ok_or(CUT_OFF)?;
    let scale = number(&mut rest).and_then(|scale| usize::try_from(scale).ok());
    text::decimal(digits, scale.ok_or("a decimal has no scale, or a negative one")?)
}
