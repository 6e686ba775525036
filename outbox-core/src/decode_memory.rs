//! The memory that payloads take while they are decoded. What they become follows their shape more than their length: an
//! object of JSON with one member takes 600 bytes as a tree. So it is estimated before it is built.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::CodecError;

/// The most that one payload may take, and all large ones of a process together: they have their turns.
pub const DECODED_BYTES_MAX: usize = 256 << 20;

/// What takes no more needs no turn.
const SMALL: usize = 16 << 20;

/// A node of a map has room for 11 members, at once.
const OBJECT: usize = 640;
/// A member of an object, or an element of an array.
const MEMBER: usize = 107;
/// A list has room for four elements, at once.
const ARRAY: usize = 128;
/// Half of a text, without its bytes.
const QUOTE: usize = 16;

static TURN: Mutex<()> = Mutex::new(());

/// What the decoding of one payload takes, until it is dropped.
#[derive(Debug, Default)]
pub struct DecodeMemory {
    turn: Option<MutexGuard<'static, ()>>,
}

impl DecodeMemory {
    /// Waits until so many bytes may be taken. Who has a turn waits for nothing but the processor.
    ///
    /// # Errors
    ///
    /// When no payload may take so many.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), CodecError> {
        if bytes > DECODED_BYTES_MAX {
            let (bytes, most) = (bytes >> 20, DECODED_BYTES_MAX >> 20);
            return Err(CodecError::Other(format!(
                "the payload would take about {bytes} MiB of memory once it is decoded; at most \
                 {most} are allowed: it has too many values; have its producer send it as several \
                 events"
            )));
        }
        if bytes > SMALL && self.turn.is_none() {
            self.turn = Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// The same for a tree of JSON values.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn reserve_tree(&mut self, json: &[u8]) -> Result<(), CodecError> {
        self.reserve(tree_bytes(json))
    }
}

/// What a JSON text takes as a tree of values, at most.
fn tree_bytes(json: &[u8]) -> usize {
    let (mut bytes, mut in_text, mut escaped) = (0, false, false);
    for byte in json {
        bytes += match byte {
            _ if escaped => {
                escaped = false;
                1
            }
            b'\\' if in_text => {
                escaped = true;
                1
            }
            b'"' => {
                in_text = !in_text;
                QUOTE
            }
            _ if in_text => 1,
            b'{' => OBJECT,
            b'[' => ARRAY,
            b',' => MEMBER,
            _ => 1,
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_estimated_by_its_shape() {
        assert_eq!(tree_bytes(br#"{"a\"{":1}"#), OBJECT + 2 * QUOTE + 7);
        assert_eq!(tree_bytes(b"[[],1]"), 2 * ARRAY + MEMBER + 3);
        // As measured with `serde_json`, glibc's allocator and 16 MiB of such objects: 100 bytes for each byte.
        let objects = "{\"\":0},".repeat(1000);
        assert!(tree_bytes(objects.as_bytes()) > 100 * objects.len());
    }

    #[test]
    fn what_is_large_has_its_turn_and_what_is_too_large_is_refused() {
        let (mut large, mut small) = (DecodeMemory::default(), DecodeMemory::default());
        large.reserve(DECODED_BYTES_MAX).unwrap();
        large.reserve(SMALL + 1).unwrap();
        small.reserve(SMALL).unwrap();
        assert!(TURN.try_lock().is_err(), "another large one waits");
        drop(large);
        assert!(TURN.try_lock().is_ok());
        let error = DecodeMemory::default().reserve(DECODED_BYTES_MAX + 1).unwrap_err();
        assert!(error.to_string().contains("at most 256 are allowed"), "{error}");
    }
}
