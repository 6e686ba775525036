//! Percent-encoding, as the headers of CloudEvents and of the relay's webhooks have it.

/// The text that was encoded. A percent sign that encodes nothing stands for itself.
pub(super) fn decode(encoded: &str) -> Option<String> {
    if !encoded.contains('%') {
        return Some(encoded.to_owned());
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, behind @ ..] = rest {
        let byte = match (first, behind) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        if let Some((high, low)) = byte {
            decoded.push(high * 16 + low);
            rest = &behind[2..];
        } else {
            decoded.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(decoded).ok()
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn what_was_encoded_comes_back() {
        for (encoded, text) in [
            ("plain", "plain"),
            ("Euro%20%E2%82%AC", "Euro €"),
            ("100%", "100%"),
            ("%2", "%2"),
            ("%zz", "%zz"),
            ("%25", "%"),
        ] {
            assert_eq!(decode(encoded).as_deref(), Some(text), "{encoded}");
        }
        assert_eq!(decode("%FF"), None);
    }
}
