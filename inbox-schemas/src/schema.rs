//! A schema that can be read by, as the registry has it.

use outbox_core::CodecError;
use serde_json::Value;

use crate::fetched::{Fetched, Format};

/// A schema that payloads are read by.
#[derive(Debug)]
pub enum Schema {
    /// Of Avro.
    #[cfg(feature = "avro")]
    Avro(Box<crate::avro::AvroSchema>),
    /// Of Protobuf.
    #[cfg(feature = "protobuf")]
    Protobuf(crate::protobuf::ProtobufSchema),
    /// Of JSON.
    Json,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or that this build has not its format.
    pub fn read(fetched: &Fetched) -> Result<Self, String> {
        match fetched.format {
            #[cfg(feature = "avro")]
            Format::Avro => {
                crate::avro::AvroSchema::read(fetched).map(|schema| Self::Avro(Box::new(schema)))
            }
            #[cfg(not(feature = "avro"))]
            Format::Avro => Err(not_built("Avro", "avro")),
            #[cfg(feature = "protobuf")]
            Format::Protobuf => crate::protobuf::ProtobufSchema::read(fetched).map(Self::Protobuf),
            #[cfg(not(feature = "protobuf"))]
            Format::Protobuf => Err(not_built("Protobuf", "protobuf")),
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
            #[cfg(feature = "avro")]
            Self::Avro(schema) => schema.value(body).map_err(|what| unfit("Avro", &what)),
            #[cfg(feature = "protobuf")]
            Self::Protobuf(schema) => schema.value(body).map_err(|what| unfit("Protobuf", &what)),
            Self::Json => outbox_core::Decode::decode(&outbox_core::Json, &payload(body)),
        }
    }
}

fn payload(body: &[u8]) -> outbox_core::Payload<'_> {
    outbox_core::Payload::new(body)
}

#[cfg(not(all(feature = "avro", feature = "protobuf")))]
fn not_built(format: &str, feature: &str) -> String {
    format!(
        "it is of {format}, which this build does not read: build it with the feature `{feature}`"
    )
}

/// `what` shows none of the payload.
#[cfg(any(feature = "avro", feature = "protobuf"))]
pub(crate) fn unfit(format: &str, what: &str) -> CodecError {
    CodecError::Other(format!(
        "the payload is not the {format} that its schema describes: {what}; correct its producer"
    ))
}
