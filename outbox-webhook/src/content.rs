//! What one file of a webhook holds.

use std::{io::Read as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use service_kit::WebhookKey;

/// The largest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a file is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Secrets,
    Bearer,
    Basic,
    Header(HeaderName),
    Authority,
}

impl Role {
    /// The key that names it.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Secrets => "webhooks.secret_files",
            Self::Bearer => "webhooks.bearer_file",
            Self::Basic => "webhooks.basic_file",
            Self::Header(_) => "webhooks.header_files",
            Self::Authority => "webhooks.ca_file",
        }
    }
}

/// What a file holds.
pub(crate) enum Held {
    Secrets(Vec<WebhookKey>),
    Header(HeaderName, HeaderValue),
    Authority(Vec<CertificateDer<'static>>),
}

/// A file that was read.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) held: Held,
    /// What of it may be in no text.
    pub(crate) secrets: Vec<String>,
}

/// The bytes of a file.
///
/// # Errors
/// Why there are none, with its name.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    let file = path.display();
    match read {
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => {
            Err(format!("{file} is larger than 1 MiB; name another file"))
        }
        Ok(_) => Ok(bytes),
        Err(error) => {
            Err(format!("cannot read {file}: {error}; check the name and its permissions"))
        }
    }
}

impl Content {
    /// What is in a file.
    ///
    /// # Errors
    /// What is wrong with it, with its name and without anything of it.
    pub(crate) fn read(role: &Role, path: &Path, bytes: Vec<u8>) -> Result<Self, String> {
        let file = path.display();
        if *role == Role::Authority {
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
            let certificates = read.ok().filter(|all| !all.is_empty());
            let held = Held::Authority(certificates.ok_or_else(|| {
                format!(
                    "{file} contains no certificates: write them as PEM, -----BEGIN \
                     CERTIFICATE-----"
                )
            })?);
            return Ok(Self { bytes, held, secrets: Vec::new() });
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| format!("{file} is not UTF-8 text"))?;
        if text.starts_with('\u{feff}') {
            return Err(format!(
                "{file} begins with a byte order mark: save it as UTF-8 without one"
            ));
        }
        let text = text.trim_end_matches(['\n', '\r']);
        let (held, secrets) = match role {
            Role::Secrets => read_secrets(text, path)?,
            Role::Bearer => header(AUTHORIZATION, format!("Bearer {text}"), text, path)?,
            Role::Basic => {
                if !text.contains(':') {
                    return Err(format!("{file} does not contain user:password"));
                }
                header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(text)), text, path)?
            }
            Role::Header(name) => header(name.clone(), text.to_owned(), text, path)?,
            Role::Authority => (Held::Authority(Vec::new()), Vec::new()),
        };
        Ok(Self { bytes, held, secrets })
    }
}

/// One secret in each line.
fn read_secrets(text: &str, path: &Path) -> Result<(Held, Vec<String>), String> {
    let file = path.display();
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let (mut keys, mut secrets) = (Vec::new(), Vec::new());
    for (at, line) in lines {
        let key =
            WebhookKey::read(line).map_err(|error| format!("line {} of {file} {error}", at + 1))?;
        keys.push(key);
        secrets.extend(forms_of_key(line));
    }
    if keys.is_empty() {
        return Err(format!("{file} is empty; write a secret into it: whsec_ and base64"));
    }
    Ok((Held::Secrets(keys), secrets))
}

/// What a receiver may send back of a key: base64 as it is configured and as URLs have it, hexadecimal digits, or text.
/// Without the prefix and the padding, which tell nothing.
fn forms_of_key(line: &str) -> Vec<String> {
    let encoded = line.trim_start_matches("whsec_");
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let encoded = encoded.trim_end_matches('=').to_owned();
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let url = encoded.replace('+', "-").replace('/', "_");
    let mut forms = vec![url, hex.to_uppercase(), hex, encoded];
    forms.extend(String::from_utf8(bytes));
    forms
}

fn header(
    name: HeaderName,
    value: String,
    text: &str,
    path: &Path,
) -> Result<(Held, Vec<String>), String> {
    let file = path.display();
    if text.trim().is_empty() {
        return Err(format!("{file} is empty; write the value into it"));
    }
    let mut sent = HeaderValue::from_str(&value).map_err(|_| {
        format!(
            "{file} contains characters that a header does not allow; leave one line of \
                 visible ASCII in it"
        )
    })?;
    sent.set_sensitive(true);
    // In any form that a receiver could send back: whole, the password alone, encoded.
    let encoded = value.rsplit(' ').next().unwrap_or_default();
    let password = text.split_once(':').map_or(text, |(_, password)| password);
    let secrets = [text, encoded, password]
        .into_iter()
        .filter(|secret| !secret.is_empty())
        .map(str::to_owned);
    Ok((Held::Header(name, sent), secrets.collect()))
}
