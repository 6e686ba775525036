//! Percent-encoding: values that strangers choose, in a URL and in headers.

/// Text as one segment of a path, or one value of a query: nothing but what RFC 3986 calls unreserved stays.
pub(crate) fn segment(text: &str) -> String {
    encoded(text.as_bytes(), |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
    })
}

/// Bytes as the value of a header: visible ASCII stays but for `%`, so that decoding gives the bytes back.
pub(crate) fn header(bytes: &[u8]) -> String {
    encoded(bytes, |byte| byte.is_ascii_graphic() && byte != b'%')
}

fn encoded(bytes: &[u8], stays: impl Fn(u8) -> bool) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if stays(*byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_is_encoded() {
        assert_eq!(segment("a/b?c#d%e ü.~_-"), "a%2Fb%3Fc%23d%25e%20%C3%BC.~_-");
        assert_eq!(header(b"a/b?c=1, 100%"), "a/b?c=1,%20100%25");
        assert_eq!(header("ü\r\nX: y\0\u{7f}".as_bytes()), "%C3%BC%0D%0AX:%20y%00%7F");
    }
}
