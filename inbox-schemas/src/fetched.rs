//! A schema as the registry has it.

/// What a schema is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Avro.
    Avro,
    /// Protobuf, as the text of a file.
    Protobuf,
    /// JSON Schema: payloads are JSON, and nobody checks them against it.
    Json,
}

/// A schema as the registry has it.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its format.
    pub format: Format,
    /// Its text.
    pub text: String,
    /// The name and the text of each schema that it refers to: one that another refers to is before that one.
    pub references: Vec<(String, String)>,
}
