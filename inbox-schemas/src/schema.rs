//! A schema that can be read by, as the registry has it.

use outbox_core::{CodecError, Decode as _, Json, Payload};
use serde::de::DeserializeOwned;

use crate::{
    avro::{AvroSchema, ReaderSchema},
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

    /// What a payload is, behind the id of its schema. JSON and the JSON of Protobuf are read as text: a number in a value
    /// of JSON has no more than 17 digits. Avro is resolved to the reader's schema, where there is one.
    ///
    /// # Errors
    ///
    /// When the bytes are not what the schema describes, or that does not fit `T`.
    pub fn decode<T: DeserializeOwned>(
        &self,
        body: &[u8],
        reader: Option<&ReaderSchema>,
    ) -> Result<T, CodecError> {
        let read = match self {
            Self::Avro(schema) => {
                let value = match reader {
                    Some(reader) => schema.value_for(reader, body),
                    None => schema.value(body),
                };
                serde_json::from_value(value.map_err(|what| unfit("Avro", &what))?)
            }
            Self::Protobuf(schema) => {
                let json = schema.json(body).map_err(|what| unfit("Protobuf", &what))?;
                serde_json::from_slice(&json)
            }
            Self::Json => return Json.decode(&Payload::new(body)),
        };
        read.map_err(|error| CodecError::value(&error))
    }
}

/// `what` shows none of the payload.
pub(crate) fn unfit(format: &str, what: &str) -> CodecError {
    CodecError::Other(format!(
        "the payload is not the {format} that its schema describes: {what}; correct its producer"
    ))
}
