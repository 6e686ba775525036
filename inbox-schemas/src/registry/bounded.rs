//! What goes with each request, and how much of its answer is read.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    Extensions, HeaderValue,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE},
};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next};

use super::settings::RegistrySettings;

/// What stands for an answer that is too long. No registry has the code.
pub(super) const TOO_LONG: u32 = 41_300;

/// Credentials out of their files, and a bound for what is answered.
pub(super) struct Bounded {
    user: Option<String>,
    password_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    bytes_max: usize,
}

impl Bounded {
    pub(super) fn new(settings: &RegistrySettings) -> Self {
        // JSON may write a byte of a text as six.
        let bytes_max = settings.schema_bytes_max.saturating_mul(6).saturating_add(16 << 10);
        Self {
            user: settings.user.clone(),
            password_file: settings.password_file.clone(),
            token_file: settings.token_file.clone(),
            bytes_max,
        }
    }

    /// The value of `Authorization`, if there is to be one.
    fn authorization(&self) -> Result<Option<HeaderValue>, String> {
        let text = match (&self.user, &self.password_file, &self.token_file) {
            (Some(user), Some(file), _) => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{}", secret(file)?)))
            }
            (_, _, Some(file)) => format!("Bearer {}", secret(file)?),
            _ => return Ok(None),
        };
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            "the file with its credentials contains characters that a header does not allow"
                .to_owned()
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn read(&self, mut response: Response) -> Result<Response, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > self.bytes_max {
                let error = format!(r#"{{"error_code": {TOO_LONG}, "message": "too long"}}"#);
                return Ok(answer(413, error.into_bytes()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(answer(response.status().as_u16(), body))
    }
}

fn answer(status: u16, body: Vec<u8>) -> Response {
    let mut whole = http::Response::new(body);
    *whole.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    whole.headers_mut().remove(CONTENT_LENGTH);
    whole.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    whole.into()
}

/// A file's first line. The error names the file alone.
fn secret(file: &Path) -> Result<String, String> {
    let unread = |why: &str| format!("the file {} with its credentials {why}", file.display());
    let text = std::fs::read_to_string(file)
        .map_err(|error| unread(&format!("cannot be read: {error}")))?;
    if text.starts_with('\u{feff}') {
        return Err(unread("begins with a byte order mark: save it as UTF-8 without one"));
    }
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() { Err(unread("is empty")) } else { Ok(line.to_owned()) }
}

#[async_trait]
impl Middleware for Bounded {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        if let Some(value) = self.authorization().map_err(|why| Error::middleware(Unread(why)))? {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        // The library asks so for ids alone: a schema is as readable when another that it refers to was deleted since.
        if request.url().path().contains("/versions/") {
            request.url_mut().query_pairs_mut().append_pair("deleted", "true");
        }
        let response = next.run(request, extensions).await?;
        self.read(response).await
    }
}

/// Credentials that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unread(String);
