//! Where a registry is, and who asks it.

use std::{path::PathBuf, time::Duration};

/// Where a registry is, and who asks it. Passwords and tokens are in files, which are read for each request: schemas are
/// fetched once, so there are few.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegistrySettings {
    /// Its address, such as `https://registry.internal:8081`, without credentials.
    pub url: String,
    /// How long a request may take.
    pub timeout: Duration,
    /// The user of `password_file`.
    pub user: Option<String>,
    /// The file with the password, for HTTP's basic authentication.
    pub password_file: Option<PathBuf>,
    /// The file with a bearer token.
    pub token_file: Option<PathBuf>,
    /// The file with certificates of authorities to trust, in PEM; the system's otherwise.
    pub ca_file: Option<PathBuf>,
    /// The longest schema with all that it refers to, in bytes.
    pub schema_bytes_max: usize,
    /// How many schemas are kept; one that was fetched within the last minute is kept beside them.
    pub schemas_max: usize,
    /// The topics whose payloads are in the wire format, `orders` or `outbox.*`; all but the intake's, when there are
    /// none. Payloads of other topics are JSON.
    pub topics: Vec<String>,
}

/// What is wrong with the settings of a registry: a sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub(crate) String);

impl RegistrySettings {
    /// At an address; nothing else is needed.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            timeout: Duration::from_secs(5),
            user: None,
            password_file: None,
            token_file: None,
            ca_file: None,
            schema_bytes_max: 1 << 20,
            schemas_max: 1000,
            topics: Vec::new(),
        }
    }

    /// What is wrong with them, as far as nothing has to be read for it.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |text: &str| Err(SettingsError(text.to_owned()));
        let Ok(url) = reqwest::Url::parse(&self.url) else {
            return wrong(
                "the address of the schema registry is invalid; write it as http://HOST:PORT",
            );
        };
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return wrong(
                "the address of the schema registry begins neither with http:// nor with https://",
            );
        }
        if !url.username().is_empty() || url.password().is_some() {
            return wrong(
                "the address of the schema registry contains credentials, which would be logged \
                 with it; set the user and a file with the password",
            );
        }
        if self.password_file.is_some() && self.token_file.is_some() {
            return wrong(
                "the schema registry has a password and a token; set one of the two files",
            );
        }
        if self.password_file.is_some() != self.user.is_some() {
            return wrong(
                "basic authentication at the schema registry needs a user and a file with the \
                 password",
            );
        }
        Ok(())
    }
}
