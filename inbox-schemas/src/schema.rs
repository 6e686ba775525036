//! A schema that can be read by, as the registry has it.

use outbox_core::CodecError;
use serde_json::Value;

use crate::{
    avro::AvroSchema,
    fetched::{Fetched, Format},
    protobuf::ProtobufSchema,
};

/// A schema that payloads are read by.
#[derive(Debug)]
pub enum Schema {
    /// Of Avro.
    Avro(Box<AvroSchema>),
    /// Of Protobuf.
    Protobuf(ProtobufSchema),
    /// Of JSON.
    Json,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(fetched: &Fetched) -> Result<Self, String> {
        match fetched.format {
            Format::Avro => AvroSchema::read(fetched).map(|schema| Self::Avro(Box::new(schema))),
            Format::Protobuf => ProtobufSchema::read(fetched).map(Self::Protobuf),
            Format::Json => Ok(Self::Json),
        }
    }

    /// The value that a payload is, behind the id of its schema.
    ///
    /// # Errors
    ///
    /// When the bytes are not what the schema describes.
    pub fn value(&self, body: &[u8]) -> Result<Value, CodecError> {
        match self {
            Self::Avro(schema) => schema.value(body).map_err(|what| unfit("Avro", &what)),
            Self::Protobuf(schema) => schema.value(body).map_err(|what| unfit("Protobuf", &what)),
            Self::Json => outbox_core::Decode::decode(&outbox_core::Json, &payload(body)),
        }
    }
}

fn payload(body: &[u8]) -> outbox_core::Payload<'_> {
    outbox_core::Payload::new(body)
}

/// `what` shows none of the payload.
pub(crate) fn unfit(format: &str, what: &str) -> CodecError {
    CodecError::Other(format!(
        "the payload is not the {format} that its schema describes: {what}; correct its producer"
    ))
}
