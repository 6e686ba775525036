//! W3C Trace Context: what its headers say.

/// The longest `tracestate` that is handed on, in bytes, as the specification asks for.
const TRACESTATE_BYTES_MAX: usize = 512;

/// A `traceparent`: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceParent<'a> {
    /// The trace, in hex.
    pub trace_id: &'a str,
    /// The span that sent it, in hex.
    pub parent_id: &'a str,
    /// Whether it is sampled, and what else later versions say there.
    pub flags: u8,
}

impl<'a> TraceParent<'a> {
    /// `None` when the bytes do not follow the specification: neither id is all zero, letters are lower case, and
    /// later versions may have more behind a further hyphen.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(bytes).ok()?.splitn(5, '-');
        let mut hex = |digits| parts.next().filter(|part| is_hex(part, digits));
        let not_zero = |id: &&str| id.bytes().any(|digit| digit != b'0');
        let version = hex(2)?;
        let trace_id = hex(32).filter(not_zero)?;
        let parent_id = hex(16).filter(not_zero)?;
        let flags = u8::from_str_radix(hex(2)?, 16).ok()?;
        let more = parts.next().is_some();
        let known = version != "ff" && !(version == "00" && more);
        known.then_some(Self { trace_id, parent_id, flags })
    }
}

/// Whether the bytes are a `traceparent`.
pub(crate) fn is_traceparent(bytes: &[u8]) -> bool {
    TraceParent::read(bytes).is_some()
}

/// Whether the bytes may be a `tracestate`: short printable ASCII.
pub(crate) fn is_tracestate(bytes: &[u8]) -> bool {
    let printable = |byte: &u8| *byte == b' ' || *byte == b'\t' || byte.is_ascii_graphic();
    (1..=TRACESTATE_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(printable)
}

fn is_hex(part: &str, digits: usize) -> bool {
    part.len() == digits && part.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
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
