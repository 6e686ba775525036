//! A schema that can be read by, as the registry has it.

use outbox_core::{CodecError, Decode as _, Json, Payload, internal::DecodeMemory};
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

    /// What a payload is whose bytes are those behind the id of its schema. They are read as JSON text: a number in a value
    /// of JSON has no more than 17 digits. Avro is resolved to the reader's schema, where there is one.
    ///
    /// # Errors
    ///
    /// When the bytes are not what the schema describes, or that does not fit `T`.
    pub fn decode<T: DeserializeOwned>(
        &self,
        payload: &Payload<'_>,
        reader: Option<&ReaderSchema>,
    ) -> Result<T, CodecError> {
        let body = payload.bytes()?;
        let mut memory = DecodeMemory::default();
        let json = match (self, reader) {
            (Self::Json, _) => return Json.decode(payload),
            (Self::Avro(schema), Some(reader)) => {
                let value = schema.value_for(reader, body, &mut memory)?;
                return serde_json::from_value(value).map_err(|error| CodecError::value(&error));
            }
            (Self::Avro(schema), None) => schema.json(body, &mut memory)?,
            (Self::Protobuf(schema), _) => schema.json(body, &mut memory)?,
        };
        if payload.is_tree() {
            memory.reserve_tree(&json)?;
        }
        serde_json::from_slice(&json).map_err(|error| CodecError::value(&error))
    }
}
