//! How much a payload may become: names come from its schema, and some values take no bytes of it.

use outbox_core::internal::DECODED_BYTES_MAX;

/// What each byte of a payload may become.
const BYTES_PER_BYTE: usize = 64;

/// What even the shortest payload may become.
const BYTES_FREE: usize = 1 << 20;

pub(crate) const TOO_LONG: &str =
    "its values and the names of its fields would take more than 64 times its length and 1 MiB";

/// What a value of Protobuf takes, without what is in it.
pub(crate) const VALUE_BYTES: usize = 32;

/// The most bytes of JSON that a payload may become.
pub(crate) fn text_bytes_max(body: &[u8]) -> usize {
    let bytes = body.len().saturating_mul(BYTES_PER_BYTE).saturating_add(BYTES_FREE);
    bytes.min(DECODED_BYTES_MAX)
}

/// So many bytes of names and values may follow.
pub(crate) struct Budget(usize);

impl Budget {
    /// Of a payload.
    pub(crate) fn of(body: &[u8]) -> Self {
        Self(text_bytes_max(body))
    }

    /// Takes so many bytes of it.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), &'static str> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or(TOO_LONG)?;
        Ok(())
    }
}
