//! A secret in what a receiver sends back, as it is or as programs write it that make JSON, URLs and forms.

/// How much longer than itself a secret is at most when it comes back: `\u002f`.
pub(crate) const FACTOR: usize = 6;

/// So many backslashes may stand before a letter: JSON within JSON has three before a quotation mark.
const BACKSLASHES_MAX: usize = 7;

/// How many bytes of the beginning of a text are a secret, if it begins with it.
pub(crate) fn length(text: &str, secret: &str) -> Option<usize> {
    if text.starts_with(secret) {
        return Some(secret.len());
    }
    let mut at = 0;
    for wanted in secret.chars() {
        at += letter(text.as_bytes().get(at..)?, wanted)?;
    }
    text.is_char_boundary(at).then_some(at)
}

/// How many bytes of the beginning of a text are this letter.
fn letter(text: &[u8], wanted: char) -> Option<usize> {
    let slashes = text.iter().take(BACKSLASHES_MAX).take_while(|byte| **byte == b'\\').count();
    let mut at = slashes;
    match &text[slashes..] {
        _ if wanted == '\\' && slashes > 0 => return Some(slashes),
        [b'u', digits @ ..] if slashes > 0 && number(digits, 4) == Some(u32::from(wanted)) => {
            return Some(slashes + 5);
        }
        [b'+', ..] if wanted == ' ' => return Some(slashes + 1),
        _ => {}
    }
    for byte in wanted.encode_utf8(&mut [0; 4]).bytes() {
        at += match &text[at..] {
            [b'%', digits @ ..] if number(digits, 2) == Some(u32::from(byte)) => 3,
            [first, ..] if *first == byte => 1,
            _ => return None,
        };
    }
    Some(at)
}

/// The hexadecimal number of so many digits.
fn number(digits: &[u8], count: usize) -> Option<u32> {
    let digits = digits.get(..count)?;
    let value = |number: u32, digit: &u8| Some(number * 16 + char::from(*digit).to_digit(16)?);
    digits.iter().try_fold(0, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_in_each_form_and_nothing_else_is() {
        for (text, secret, wanted) in [
            ("tok/en", "tok/en", Some(6)),
            ("tok\\/en.", "tok/en", Some(7)),
            ("tok\\\\\\/en.", "tok/en", Some(9)),
            ("tok%2fen", "tok/en", Some(8)),
            ("t%6Fk%2Fe%6e", "tok/en", Some(12)),
            ("tok\\u002Fen", "tok/en", Some(11)),
            ("a%25b", "a%b", Some(5)),
            ("a%25b", "a%25b", Some(5)),
            ("a\\\\b", "a\\b", Some(4)),
            ("a+b", "a b", Some(3)),
            ("a+b", "a+b", Some(3)),
            ("p%C3%A4", "pä", Some(7)),
            ("pä", "pä", Some(3)),
            ("p\\u00e4", "pä", Some(7)),
            ("tok%2e", "tok/e", None),
            ("tok%2", "tok/", None),
            ("tok%+f", "tok\u{f}", None),
            ("tok\\u002", "tok/", None),
            ("toku002f", "tok/", None),
            ("to", "tok", None),
            ("", "tok", None),
        ] {
            assert_eq!(length(text, secret), wanted, "{text} {secret}");
        }
    }
}
