//! The codec: a payload in the wire format, by the schema that it names.

use std::{fmt, sync::Arc};

use outbox_core::{CodecError, Decode, Json, Payload, Preparation};
use serde::de::DeserializeOwned;

use crate::{
    avro::{AvroSchema, ReaderSchema},
    fetched::{Fetched, Format},
    registry::{RegistrySettings, Schemas, SettingsError},
    wire::{self, SchemaName, framed},
};

/// Where events are that came by HTTP: as JSON, unless somebody names it.
const INTAKE_TOPIC: &str = "http:events";

/// Decodes what the schemas of a registry describe: Avro, Protobuf, JSON, each payload by the schema that it names. It is
/// cheap to clone, and all clones share what was fetched.
#[derive(Clone)]
pub struct Registry {
    schemas: Arc<Schemas>,
    settings: Arc<RegistrySettings>,
    reader: Option<ReaderSchema>,
}

/// What is wrong with a reader's schema: a sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the reader's schema cannot be used: {0}")]
pub struct ReaderSchemaError(String);

impl Registry {
    /// Of a registry, which is not asked for anything yet.
    ///
    /// # Errors
    ///
    /// What is wrong with the settings.
    pub fn new(settings: RegistrySettings) -> Result<Self, SettingsError> {
        let schemas = Schemas::new(&settings)?;
        Ok(Self { schemas, settings: Arc::new(settings), reader: None })
    }

    /// The same, for a reader with a schema of its own: payloads of Avro are resolved to it, with its defaults for fields
    /// that an older writer did not have, and its wider types (`apache-avro` resolves no aliases). Payloads of other formats are as without.
    ///
    /// # Errors
    ///
    /// When the text is no schema of Avro.
    pub fn with_reader_schema(self, schema: &str) -> Result<Self, ReaderSchemaError> {
        let fetched =
            Fetched { format: Format::Avro, text: schema.to_owned(), references: Vec::new() };
        let reader = AvroSchema::read(&fetched).map_err(ReaderSchemaError)?;
        Ok(Self { reader: Some(Arc::new(reader)), ..self })
    }

    /// What a payload in the wire format is.
    fn read<T: DeserializeOwned>(
        &self,
        payload: &Payload<'_>,
        bytes: &[u8],
    ) -> Result<T, CodecError> {
        let (name, body) = framed(payload.header(wire::HEADER), bytes)?;
        let schema = self.schemas.get(name)?;
        let body = payload.with_bytes(&body);
        if payload.is_text_in_schema()
            && let Ok(text) = schema.decode::<String>(&body, self.reader.as_ref())
        {
            // A column of JSON, which is a text to a converter: what the text holds is the payload.
            return Json.decode(&Payload::new(text.as_bytes()));
        }
        schema.decode(&body, self.reader.as_ref())
    }

    /// The schema that a payload is of, as far as that can be told.
    fn named(&self, payload: &Payload<'_>) -> Option<SchemaName> {
        let bytes = payload.content().filter(|_| self.takes(payload.topic()))?;
        framed(payload.header(wire::HEADER), bytes).ok().map(|(name, _)| name)
    }

    /// Whether payloads of a topic are in the wire format.
    fn takes(&self, topic: &str) -> bool {
        let topics = &self.settings.topics;
        let is = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => topic.starts_with(prefix),
            None => topic == pattern,
        };
        if topics.is_empty() { topic != INTAKE_TOPIC } else { topics.iter().any(is) }
    }
}

impl<T: DeserializeOwned> Decode<T> for Registry {
    fn decode(&self, payload: &Payload<'_>) -> Result<T, CodecError> {
        match payload.content() {
            Some(bytes) if self.takes(payload.topic()) => self.read(payload, bytes),
            // What stands for no payload, JSON knows.
            _ => Json.decode(payload),
        }
    }

    fn start(&self) -> Preparation<'_> {
        Box::pin(self.schemas.look())
    }

    fn prepare(&self, payload: &Payload<'_>) -> Option<Preparation<'_>> {
        let name = self.named(payload)?;
        self.schemas.lacks(name).then(|| -> Preparation<'_> { Box::pin(self.schemas.fetch(name)) })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("settings", &self.settings).finish_non_exhaustive()
    }
}
