//! W3C Trace Context: whether a header is one.

/// The longest `tracestate` that is handed on, in bytes, as the specification asks for.
const TRACESTATE_BYTES_MAX: usize = 512;

/// Whether the bytes are a `traceparent`: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`, neither
/// id all zero; later versions may have more behind a further hyphen.
pub(crate) fn is_traceparent(bytes: &[u8]) -> bool {
    let Some((head, more)) = bytes.split_at_checked(55) else { return false };
    let parts: Vec<&[u8]> = head.split(|byte| *byte == b'-').collect();
    let [version, trace, parent, flags] = parts[..] else { return false };
    let id = |part: &[u8], digits| is_hex(part, digits) && part.iter().any(|digit| *digit != b'0');
    let ends = if version == b"00" { more.is_empty() } else { more.first().is_none_or(is_hyphen) };
    is_hex(version, 2)
        && version != b"ff"
        && id(trace, 32)
        && id(parent, 16)
        && is_hex(flags, 2)
        && ends
}

/// Whether the bytes may be a `tracestate`: short printable ASCII.
pub(crate) fn is_tracestate(bytes: &[u8]) -> bool {
    let printable = |byte: &u8| *byte == b' ' || *byte == b'\t' || byte.is_ascii_graphic();
    (1..=TRACESTATE_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(printable)
}

fn is_hyphen(byte: &u8) -> bool {
    *byte == b'-'
}

/// Lower case only, as the specification has it.
fn is_hex(part: &[u8], digits: usize) -> bool {
    part.len() == digits && part.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::{is_traceparent, is_tracestate};

    #[test]
    fn only_what_the_specification_allows_is_a_trace_context() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(is_traceparent(good.as_bytes()));
        let later = good.replacen("00-", "cc-", 1) + "-more";
        assert!(is_traceparent(later.as_bytes()));
        for wrong in [
            "",
            "00-1-2-01",
            &good.to_uppercase(),
            &good[..54],
            &format!("{good}-more"),
            &good.replacen("00-", "ff-", 1),
            &good.replacen("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32), 1),
            &good.replacen("00f067aa0ba902b7", &"0".repeat(16), 1),
            &good.replace('-', "_"),
        ] {
            assert!(!is_traceparent(wrong.as_bytes()), "{wrong}");
        }
        assert!(is_tracestate(b"congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"));
        assert!(!is_tracestate(b"") && !is_tracestate(b"a\n") && !is_tracestate(&[b'a'; 513]));
    }
}
