//! Avro and Protobuf of a schema registry, in Confluent's wire format, as codecs of `inbox-consumer`.
//!
//! A [`Registry`] decodes what its schemas describe to any type that serde knows, by way of JSON
//! (`docs/schemas.md` tells how each type is written in it). It is given to
//! `Routes::on_with`, or to `Upcasts::over`; declared handlers get it by `[schemas]` of the configuration.
//!
//! Schemas are fetched before a transaction begins, one request for each id, and kept. A registry that does not answer is
//! an outage: events wait. An id that it does not know parks the event.
//!
//! ```no_run
//! use inbox_schemas::{Registry, RegistrySettings};
//!
//! let mut settings = RegistrySettings::new("https://registry.internal:8081");
//! settings.password_file = Some("/run/secrets/registry".into());
//! let registry = Registry::new(settings)?;
//! // Routes::default().on_with("OrderPaid", registry.clone(), CreditAccount)
//! # Ok::<(), inbox_schemas::SettingsError>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod avro;
mod budget;
mod codec;
mod fetched;
mod parse;
mod protobuf;
mod registry;
mod schema;
mod wire;

pub use codec::{ReaderSchemaError, Registry};
pub use registry::{RegistrySettings, SettingsError};

/// What fuzz targets and the bench decode by, without a registry; no promise of stability.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        avro::AvroSchema,
        fetched::{Fetched, Format},
        protobuf::ProtobufSchema,
        schema::Schema,
        wire::{SchemaName, framed},
    };
}
