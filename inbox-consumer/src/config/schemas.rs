//! `[schemas]`: payloads that are no JSON.

use std::time::Duration;

use service_kit::{Problem, section};

const OFF: &str = "off";

section! {
    /// `[schemas]`: payloads of Avro and Protobuf, by a schema registry, for declared handlers. See `docs/schemas.md`.
    pub struct Schemas as "schemas" {
        /// The address of the registry, such as `https://registry.internal:8081`, or `off`. If it
        /// is set, payloads are in Confluent's wire format, and declared handlers read them as
        /// JSON. Needs a build with the feature `schemas`.
        registry: String = "off";
        /// The topics whose payloads are in the wire format, in full or with `*` at the end; by
        /// default all but the intake's. Payloads of other topics are JSON.
        topics: Vec<String>;
        /// Timeout of a request to the registry.
        timeout: Duration = "5s", in 100ms..=1m;
        /// The user for HTTP basic authentication.
        user: Option<String>;
        /// File with the user's password in its first line, read for each request.
        password_file: Option<String>;
        /// File with a bearer token, instead of user and password.
        token_file: Option<String>;
        /// File of trusted certificate authorities (PEM), instead of the system's.
        ca_file: Option<String>;
        /// The largest schema, including all that it refers to. An event with a larger one is
        /// parked.
        schema_bytes_max: usize = "1MiB", in 1KiB..=16MiB;
        /// Maximum number of cached schemas. Those fetched within the last minute are kept in addition.
        schemas_max: usize = "1000", in 10..=100_000;
    }
}

impl Schemas {
    /// Whether there is a registry.
    pub fn is_on(&self) -> bool {
        self.registry != OFF
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if !self.is_on() {
            return found;
        }
        #[cfg(feature = "schemas")]
        if let Err(error) = self.settings().check() {
            found.push(Problem::fatal(&["schemas.registry"], format!("[schemas]: {error}")));
        }
        if cfg!(not(feature = "schemas")) {
            let text = "`schemas.registry` is set, but this build reads no schemas; build \
                        inbox-consumer with the feature `schemas`, or set it to off";
            found.push(Problem::fatal(&["schemas.registry"], text));
        }
        for (key, file) in [
            ("schemas.password_file", &self.password_file),
            ("schemas.token_file", &self.token_file),
        ] {
            let file = file.as_ref().map(std::path::Path::new);
            found.extend(file.and_then(|file| {
                service_kit::doubt_of(&[key], "a secret of the schema registry", file)
            }));
        }
        found
    }

    #[cfg(feature = "schemas")]
    fn settings(&self) -> inbox_schemas::RegistrySettings {
        let mut settings = inbox_schemas::RegistrySettings::new(&self.registry);
        settings.topics.clone_from(&self.topics);
        settings.timeout = self.timeout;
        settings.user.clone_from(&self.user);
        settings.password_file = self.password_file.as_ref().map(Into::into);
        settings.token_file = self.token_file.as_ref().map(Into::into);
        settings.ca_file = self.ca_file.as_ref().map(Into::into);
        settings.schema_bytes_max = self.schema_bytes_max;
        settings.schemas_max = self.schemas_max;
        settings
    }

    /// The codec of the registry, for handlers in Rust, which the configuration gives nothing by itself; `None` where there
    /// is no registry.
    ///
    /// # Errors
    /// What is wrong with the settings.
    #[cfg(feature = "schemas")]
    pub fn codec(&self) -> Result<Option<inbox_schemas::Registry>, inbox_schemas::SettingsError> {
        if !self.is_on() {
            return Ok(None);
        }
        inbox_schemas::Registry::new(self.settings()).map(Some)
    }
}
