//! What makes JSON of the payloads of declared handlers, where the configuration names a schema registry.

use inbox_handler::internal::PayloadCodec;

use super::BuildError;
use crate::config::Config;

/// The codec of `[schemas]`; `None` where payloads are JSON.
///
/// # Errors
/// When its files cannot be read.
#[cfg(feature = "schemas")]
pub(crate) fn payload_codec(config: &Config) -> Result<Option<PayloadCodec>, BuildError> {
    let registry = config.schemas.codec();
    let registry =
        registry.map_err(|error| BuildError::Codec(vec![format!("[schemas]: {error}")]))?;
    Ok(registry.map(|registry| -> PayloadCodec { std::sync::Arc::new(registry) }))
}

/// Without the feature nothing is to be decoded.
#[cfg(not(feature = "schemas"))]
#[expect(clippy::unnecessary_wraps, reason = "as it is with the feature")]
pub(crate) fn payload_codec(_: &Config) -> Result<Option<PayloadCodec>, BuildError> {
    Ok(None)
}
