//! Confluent's wire format: a zero, the id of the schema in four bytes, and what the schema describes.

use outbox_core::CodecError;

/// The first byte.
const MAGIC: u8 = 0;

/// The id of a payload's schema, and what follows it.
///
/// # Errors
///
/// When it is not in the format.
pub fn framed(payload: &[u8]) -> Result<(u32, &[u8]), CodecError> {
    let [MAGIC, a, b, c, d, rest @ ..] = payload else {
        let found = match payload {
            [] => "it is empty".to_owned(),
            [MAGIC, ..] => format!("it has only {} bytes", payload.len()),
            // Not the byte itself: it is of the payload.
            _ => "its first byte is no 0".to_owned(),
        };
        return Err(CodecError::Other(format!(
            "the payload is not in the wire format of a schema registry ({found}): a 0, and the id of its schema in four \
             bytes; correct its producer, or name the topics that are in `schemas.topics`"
        )));
    };
    Ok((u32::from_be_bytes([*a, *b, *c, *d]), rest))
}

/// The most messages that one of Protobuf may be inside of.
const NESTED_MAX: i64 = 32;

/// Which message of its file a payload of Protobuf is: its place among the messages of each level; and what follows.
pub(crate) fn message_path(body: &[u8]) -> Result<(Vec<usize>, &[u8]), String> {
    let mut rest = body;
    let mut next = || number(&mut rest).ok_or("the indexes of its message are cut off");
    let count = next()?;
    // One 0 stands for the first message.
    if count == 0 {
        return Ok((vec![0], rest));
    }
    if !(1..=NESTED_MAX).contains(&count) {
        return Err("the number of indexes of its message is out of bounds".into());
    }
    let mut path = Vec::new();
    for _ in 0..count {
        path.push(usize::try_from(next()?).map_err(|_| "an index of its message is negative")?);
    }
    Ok((path, rest))
}

/// A number as Avro and Protobuf write them: seven bits a byte, the least first, zigzag.
pub(crate) fn number(rest: &mut &[u8]) -> Option<i64> {
    let mut value: u64 = 0;
    for (place, byte) in rest.iter().enumerate().take(10) {
        // The tenth byte has room for one bit.
        if place == 9 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            *rest = &rest[place + 1..];
            let sign = (value & 1).wrapping_neg();
            return Some(((value >> 1) ^ sign).cast_signed());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_begins_with_a_zero_and_the_id_of_its_schema() {
        assert_eq!(framed(&[0, 0, 0, 1, 2]), Ok((258, &b""[..])));
        assert_eq!(framed(&[0, 255, 255, 255, 255, 7]), Ok((u32::MAX, &b"\x07"[..])));
        for (payload, word) in [
            (&b""[..], "it is empty"),
            (b"\0\0\0\x01", "it has only 4 bytes"),
            (b"{\"a\": 1}", "its first byte is no 0"),
        ] {
            let error = framed(payload).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("`schemas.topics`"), "{error}");
        }
    }

    #[test]
    fn numbers_are_read_to_their_last_bit_and_no_further() {
        let read = |bytes: &[u8]| {
            let mut rest = bytes;
            number(&mut rest).map(|value| (value, rest.len()))
        };
        for (bytes, expected) in [
            (&[0][..], Some((0, 0))),
            (&[1, 9], Some((-1, 1))),
            (&[0x80, 1], Some((64, 0))),
            (&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1], Some((i64::MAX, 0))),
            (&[0xff, 255, 255, 255, 255, 255, 255, 255, 255, 1], Some((i64::MIN, 0))),
            (&[0xff, 255, 255, 255, 255, 255, 255, 255, 255, 2], None),
            (&[0x80; 11], None),
            (&[0x80], None),
            (&[], None),
        ] {
            assert_eq!(read(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_message_is_named_by_its_place_at_each_level() {
        assert_eq!(message_path(&[0, 9]), Ok((vec![0], &[9][..])));
        assert_eq!(message_path(&[2, 2, 9]), Ok((vec![1], &[9][..])));
        assert_eq!(message_path(&[4, 2, 0]), Ok((vec![1, 0], &[][..])));
        for (bytes, word) in [
            (&[][..], "cut off"),
            (&[4, 2], "cut off"),
            (&[1], "out of bounds"),
            (&[0x80, 1], "out of bounds"),
            (&[2, 1], "negative"),
        ] {
            assert!(message_path(bytes).unwrap_err().contains(word), "{bytes:?}");
        }
    }
}
