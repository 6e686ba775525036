//! Confluent's wire formats: what names the schema, in a header or in front of the payload, and what it describes.

use std::{borrow::Cow, fmt};

use outbox_core::CodecError;

/// The header in which Confluent's serializers name the schema, where they are told to (`HeaderSchemaIdSerializer`).
pub(crate) const HEADER: &str = "__value_schema_id";

/// The first byte where an id in four bytes follows, and where a GUID does.
const ID: u8 = 0;
const GUID: u8 = 1;

/// What a registry knows a schema by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SchemaName {
    /// Its number in this registry.
    Id(u32),
    /// What it is called in every registry.
    Guid(u128),
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Guid(guid) => {
                let hex = format!("{guid:032x}");
                let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
                f.write_str(&parts.join("-"))
            }
        }
    }
}

/// The schema of a payload, and what that describes. As Confluent's deserializers do it, what the header names comes
/// first, and a payload without the header has a prefix. The indexes of a message of Protobuf follow the name, in the
/// header, too.
///
/// # Errors
///
/// When neither is in the format.
pub fn framed<'p>(
    header: Option<&'p [u8]>,
    payload: &'p [u8],
) -> Result<(SchemaName, Cow<'p, [u8]>), CodecError> {
    if let Some(header) = header {
        return match named(header) {
            Some((name, [])) => Ok((name, payload.into())),
            Some((name, indexes)) => Ok((name, [indexes, payload].concat().into())),
            None => Err(CodecError::Other(format!(
                "the header `{HEADER}` does not contain a schema id: a 0 and an id in four bytes, \
                 or a 1 and a GUID in sixteen; fix its producer"
            ))),
        };
    }
    named(payload).map(|(name, body)| (name, body.into())).ok_or_else(|| {
        let found = match payload {
            [] => "it is empty".to_owned(),
            [ID | GUID, ..] => format!("it has only {} bytes", payload.len()),
            // Not the byte itself: it is of the payload.
            _ => "its first byte is neither".to_owned(),
        };
        CodecError::Other(format!(
            "the payload is not in the wire format of a schema registry ({found}): a 0 and the id \
             of its schema in four bytes, or a 1 and its GUID in sixteen, and the header \
             `{HEADER}` is missing; have the producer use a serializer of the registry, or list \
             the topics whose payloads do in `schemas.topics`"
        ))
    })
}

/// The name of a schema, and what follows it.
fn named(bytes: &[u8]) -> Option<(SchemaName, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        ID => {
            let (id, rest) = rest.split_first_chunk()?;
            Some((SchemaName::Id(u32::from_be_bytes(*id)), rest))
        }
        GUID => {
            let (guid, rest) = rest.split_first_chunk()?;
            Some((SchemaName::Guid(u128::from_be_bytes(*guid)), rest))
        }
        _ => None,
    }
}

/// `what` shows none of the payload.
pub(crate) fn unfit(format: &str, what: &str) -> CodecError {
    CodecError::Other(format!(
        "the payload is not the {format} that its schema describes: {what}; fix its producer"
    ))
}

/// The most messages that one of Protobuf may be inside of.
const NESTED_MAX: i64 = 32;

/// Which message of its file a payload of Protobuf is: its place among the messages of each level; and what follows.
pub(crate) fn message_path(body: &[u8]) -> Result<(Vec<usize>, &[u8]), String> {
    let mut rest = body;
    let mut next = || number(&mut rest).ok_or("the indexes of its message are truncated");
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

    fn body(header: Option<&[u8]>, payload: &[u8]) -> Result<(SchemaName, Vec<u8>), CodecError> {
        framed(header, payload).map(|(name, body)| (name, body.into_owned()))
    }

    #[test]
    fn a_schema_is_named_by_the_header_or_else_in_front_of_the_payload() {
        let guid = [&[1][..], &[0xab; 16], b"7"].concat();
        let of_guid = SchemaName::Guid(u128::from_be_bytes([0xab; 16]));
        assert_eq!(of_guid.to_string(), "abababab-abab-abab-abab-abababababab");
        assert_eq!(body(None, &[0, 0, 0, 1, 2]), Ok((SchemaName::Id(258), vec![])));
        assert_eq!(
            body(None, &[0, 255, 255, 255, 255, 7]),
            Ok((SchemaName::Id(u32::MAX), vec![7]))
        );
        assert_eq!(body(None, &guid), Ok((of_guid, b"7".to_vec())));
        assert_eq!(body(Some(&[0, 0, 0, 1, 2]), &guid), Ok((SchemaName::Id(258), guid.clone())));
        assert_eq!(body(Some(&guid[..17]), b""), Ok((of_guid, vec![])));
        // The indexes of a message of Protobuf.
        assert_eq!(
            body(Some(&[0, 0, 0, 1, 2, 2, 2]), b"x"),
            Ok((SchemaName::Id(258), b"\x02\x02x".to_vec()))
        );
        for (payload, word) in [
            (&b""[..], "it is empty"),
            (b"\0\0\0\x01", "it has only 4 bytes"),
            (b"\x01\0\0\0\x01", "it has only 5 bytes"),
            (b"{\"a\": 1}", "its first byte is neither"),
        ] {
            let error = framed(None, payload).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("`schemas.topics`"), "{error}");
        }
        for header in [&b""[..], b"\0\0", b"\x02\0\0\0\x01"] {
            let error = framed(Some(header), &guid).unwrap_err().to_string();
            assert!(error.contains("the header `__value_schema_id`"), "{error}");
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
            (&[][..], "truncated"),
            (&[4, 2], "truncated"),
            (&[1], "out of bounds"),
            (&[0x80, 1], "out of bounds"),
            (&[2, 1], "negative"),
        ] {
            assert!(message_path(bytes).unwrap_err().contains(word), "{bytes:?}");
        }
    }
}
