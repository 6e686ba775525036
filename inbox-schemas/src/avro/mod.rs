//! Avro: schemas and their resolution by `apache-avro`, payloads by a reader of ours.
//!
//! The reader of `apache-avro` (0.22) takes a text that is cut off for null, descends as deep as a payload says, and has
//! one bound on memory for the whole process. So payloads are read here, within bounds, and its own reader sees only
//! those that were.

mod node;
mod read;
mod resolved;
mod scales;
mod text;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use apache_avro::{reader::datum::GenericDatumReader, schema::ResolvedSchema};
use outbox_core::{CodecError, internal::DecodeMemory};
use serde_json::Value;

use crate::{budget::text_bytes_max, fetched::Fetched, parse::parse, wire};
use node::Nodes;

/// A schema of Avro.
#[derive(Debug)]
pub struct AvroSchema {
    schema: apache_avro::Schema,
    /// Those that it refers to.
    others: Vec<apache_avro::Schema>,
    nodes: Nodes,
}

impl AvroSchema {
    /// Reads a schema.
    pub(crate) fn read(fetched: &Fetched) -> Result<Self, String> {
        parse(fetched, Self::parsed)
    }

    fn parsed(fetched: &Fetched) -> Result<Self, String> {
        let texts = fetched.references.iter().map(|(_, text)| text);
        let parsed = apache_avro::Schema::parse_str_with_list(&fetched.text, texts);
        let (schema, others) =
            parsed.map_err(|error| format!("it is not an Avro schema: {error}"))?;
        let nodes = Nodes::of(&schema, &others)?;
        Ok(Self { schema, others, nodes })
    }

    /// A payload as JSON. An error shows none of it.
    pub(crate) fn json(
        &self,
        body: &[u8],
        memory: &mut DecodeMemory,
    ) -> Result<Vec<u8>, CodecError> {
        memory.reserve(text_bytes_max(body))?;
        let (json, _) = read::json(&self.nodes, body).map_err(unfit)?;
        Ok(json)
    }

    /// The value that a payload is to a reader with another schema: with its defaults and wider types.
    pub(crate) fn value_for(
        &self,
        reader: &Self,
        body: &[u8],
        memory: &mut DecodeMemory,
    ) -> Result<Value, CodecError> {
        memory.reserve(text_bytes_max(body))?;
        // Within bounds, so that the other reader is.
        let (_, tree) = read::json(&self.nodes, body).map_err(unfit)?;
        memory.reserve(tree)?;
        self.resolve(reader, body).map_err(|what| unfit(&what))
    }

    fn resolve(&self, reader: &Self, body: &[u8]) -> Result<Value, String> {
        if scales::differ(&self.nodes, &reader.nodes) {
            return Err("the reader's schema gives a decimal of it another scale".into());
        }
        let read = GenericDatumReader::builder(&self.schema)
            .resolved_writer_schemata(self.resolved()?)
            .build()
            .and_then(|datum| datum.read_value(&mut &body[..]))
            .and_then(|value| resolved::widened(value).resolve(&reader.schema));
        // What it says may quote the payload.
        let value = read.map_err(|_| "it cannot be read by the reader's schema")?;
        resolved::value(&reader.nodes, value)
    }

    fn resolved(&self) -> Result<ResolvedSchema<'_>, String> {
        let all = self.others.iter().chain([&self.schema]).collect();
        ResolvedSchema::new_with_schemata(all).map_err(|_| "a schema has a name twice".to_owned())
    }
}

fn unfit(what: &str) -> CodecError {
    wire::unfit("Avro", what)
}

/// A reader's schema of a codec.
pub(crate) type ReaderSchema = Arc<AvroSchema>;
