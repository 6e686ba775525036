//! How an input is taken apart: in lines, so that a person can write and read one.

use bytes::Bytes;

/// What stands for a secret, or for what a producer sent. No message may show it.
pub(super) const CANARY: &str = "c4n4ry";

/// The lines up to the first empty one, and all bytes behind that.
pub(super) fn head_and_rest(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut lines, mut rest) = (Vec::new(), input);
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        if line.is_empty() {
            return (lines, rest);
        }
        lines.push(line);
    }
    (lines, rest)
}

/// The part before the first `=`, as text, and the part behind it.
pub(super) fn pair(line: &[u8]) -> Option<(&str, Bytes)> {
    let at = line.iter().position(|byte| *byte == b'=')?;
    let name = std::str::from_utf8(&line[..at]).ok()?;
    Some((name, Bytes::copy_from_slice(&line[at + 1..])))
}

/// Whether the canary is among these bytes.
pub(super) fn has_canary(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
}
