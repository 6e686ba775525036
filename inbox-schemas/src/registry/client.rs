//! Questions to a registry, by `schema_registry_converter`, and what its answers mean.

use std::{collections::HashSet, error::Error as StdError, sync::Arc};

use futures::future::BoxFuture;
use outbox_core::CodecError;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use schema_registry_converter::{
    async_impl::schema_registry::{
        SrSettings, get_all_subjects, get_referenced_schema, get_schema_by_guid, get_schema_by_id,
    },
    error::SRCError,
    schema_registry_common::{RawError, RegisteredReference, RegisteredSchema, SchemaType},
};

use super::{
    bounded::{Bounded, TOO_LONG},
    settings::{RegistrySettings, SettingsError},
};
use crate::{
    fetched::{Fetched, Format},
    wire::SchemaName,
};

/// Most schemas that one may refer to, directly or not.
const REFERENCES_MAX: usize = 200;

/// The codes of a registry: it does not know a subject, a version, a schema.
const UNKNOWN: std::ops::RangeInclusive<u32> = 40_401..=40_403;

/// The longest sentence of a registry or of a parser that is shown.
const SAID_MAX: usize = 300;

/// One registry.
pub(super) struct Client {
    settings: SrSettings,
    /// As people know it.
    address: String,
    schema_bytes_max: usize,
}

impl Client {
    pub(super) fn new(settings: &RegistrySettings) -> Result<Self, SettingsError> {
        settings.check()?;
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(settings)?)
            .user_agent(concat!("inbox-schemas/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(settings.timeout);
        let address = settings.url.trim_end_matches('/').to_owned();
        let settings_of_converter = SrSettings::new_builder(address.clone())
            .set_timeout(settings.timeout)
            // A variable of the environment must not lead credentials elsewhere.
            .no_proxy()
            .with_middleware(Bounded::new(settings))
            .build_with(builder)
            .map_err(|error| {
                SettingsError(format!("cannot build the client of the schema registry: {error}"))
            })?;
        let schema_bytes_max = settings.schema_bytes_max;
        Ok(Self { settings: settings_of_converter, address, schema_bytes_max })
    }

    /// Whether it answers.
    pub(super) async fn look(&self) -> Result<(), CodecError> {
        match get_all_subjects(&self.settings).await {
            Ok(_) => Ok(()),
            // More than may be read of one answer, but an answer.
            Err(error) if code(&error) == Some(TOO_LONG) => Ok(()),
            Err(error) => Err(self.away(&error)),
        }
    }

    /// The schema of an id, with all that it refers to.
    pub(super) async fn fetch(&self, name: SchemaName) -> Result<Fetched, CodecError> {
        let whose = format!("schema {name} of the payload");
        let schema = match name {
            SchemaName::Id(id) => get_schema_by_id(id, &self.settings).await,
            SchemaName::Guid(_) => get_schema_by_guid(&name.to_string(), &self.settings).await,
        };
        let schema = schema.map_err(|error| self.fault(&whose, &error))?;
        let format = match &schema.schema_type {
            SchemaType::Avro => Format::Avro,
            SchemaType::Protobuf => Format::Protobuf,
            SchemaType::Json => Format::Json,
            other => {
                let other = limited(&format!("{other:?}"));
                return Err(CodecError::Other(format!(
                    "the {whose} is of the type {other}, which is not supported"
                )));
            }
        };
        let mut references = References::default();
        if format != Format::Json {
            references.bytes = schema.schema.len();
            self.add(&whose, &schema, &mut references).await?;
        }
        Ok(Fetched { format, text: schema.schema, references: references.found })
    }

    /// Those that a schema refers to, each before what refers to it.
    fn add<'a>(
        &'a self,
        whose: &'a str,
        schema: &'a RegisteredSchema,
        found: &'a mut References,
    ) -> BoxFuture<'a, Result<(), CodecError>> {
        Box::pin(async move {
            for reference in &schema.references {
                let RegisteredReference { name, .. } = reference;
                // Its own name, too, where it refers to itself.
                if !found.seen.insert(name.clone()) {
                    continue;
                }
                let named = format!("schema {:?} that the {whose} refers to", limited(name));
                let inner = get_referenced_schema(&self.settings, reference).await;
                let inner = inner.map_err(|error| self.fault(&named, &error))?;
                found.bytes += inner.schema.len();
                if found.bytes > self.schema_bytes_max || found.seen.len() > REFERENCES_MAX {
                    return Err(too_long(whose));
                }
                self.add(whose, &inner, found).await?;
                found.found.push((name.clone(), inner.schema));
            }
            if found.bytes > self.schema_bytes_max { Err(too_long(whose)) } else { Ok(()) }
        })
    }

    /// What an error of the registry means for a payload.
    fn fault(&self, whose: &str, error: &SRCError) -> CodecError {
        match code(error) {
            Some(code) if UNKNOWN.contains(&code) => CodecError::Other(format!(
                "the schema registry {} does not have the {whose} ({code}): register it, or set \
                 the registry of its producer, then release the event",
                self.address
            )),
            Some(TOO_LONG) => too_long(whose),
            _ => self.away(error),
        }
    }

    fn away(&self, error: &SRCError) -> CodecError {
        CodecError::Unavailable(format!(
            "the schema registry {} does not answer like one: {}",
            self.address,
            said(error)
        ))
    }
}

#[derive(Default)]
struct References {
    found: Vec<(String, String)>,
    seen: HashSet<String>,
    bytes: usize,
}

fn too_long(whose: &str) -> CodecError {
    CodecError::Other(format!(
        "the {whose}, with all that it refers to, is larger than `schemas.schema_bytes_max`; \
         raise it, then release the event"
    ))
}

/// The registry's own code of an error.
fn code(error: &SRCError) -> Option<u32> {
    Some(error.source()?.downcast_ref::<RawError>()?.error_code)
}

/// The error and its causes.
fn said(error: &SRCError) -> String {
    let mut text = error.error.clone();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    limited(&text)
}

/// In one line, and not longer than people read.
pub(super) fn limited(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > SAID_MAX {
        line.truncate(line.floor_char_boundary(SAID_MAX));
        line.push('…');
    }
    line
}

fn tls(settings: &RegistrySettings) -> Result<ClientConfig, SettingsError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &settings.ca_file {
        let wrong = |why: &dyn std::fmt::Display| {
            SettingsError(format!(
                "the authorities of the schema registry in {} cannot be used: {why}",
                file.display()
            ))
        };
        let all = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
        for certificate in all {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
        if roots.is_empty() {
            return Err(wrong(&"it contains no certificate"));
        }
    } else if settings.url.starts_with("https:") {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SettingsError(format!("cannot set up TLS: {error}")))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
