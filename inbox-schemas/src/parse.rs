//! The parsers of schemas descend as deep as the texts do, and a full stack ends the process. So what the texts nest is
//! counted before, and what parses them has a stack of its own that is large enough for that.

use std::thread;

use crate::fetched::{Fetched, Format};

/// The deepest nesting of one text: what the parser of JSON takes.
const NESTED_MAX: usize = 127;

/// The deepest nesting of all texts together: where one refers to another, the parser of Avro descends from one into the
/// other.
const NESTED_ALL_MAX: usize = 4_000;

/// 16 KiB for each level, of which the parser of Avro takes a quarter without optimisation. What is not used takes no memory.
const STACK_BYTES: usize = 64 << 20;

const UNREADABLE: &str = "a string or a comment in it has no end, or an unknown escape";

/// Reads a schema whose nesting is within bounds, on a stack that is large enough. A panic is an error, too: a schema is
/// anybody's text, and what parses it is not ours.
pub(crate) fn parse<T: Send>(
    fetched: &Fetched,
    read: impl FnOnce(&Fetched) -> Result<T, String> + Send,
) -> Result<T, String> {
    let references = fetched.references.iter().map(|(_, text)| text);
    let mut all = 0;
    for text in references.chain([&fetched.text]) {
        let nested = nesting(text, fetched.format)?;
        if nested > NESTED_MAX {
            return Err(format!(
                "it is nested {nested} levels deep; at most {NESTED_MAX} are \
                                allowed"
            ));
        }
        all += nested;
    }
    if all > NESTED_ALL_MAX {
        return Err(format!(
            "it and the schemas that it refers to are nested {all} levels deep in total; at most \
             {NESTED_ALL_MAX} are allowed"
        ));
    }
    thread::scope(|scope| {
        let parser = thread::Builder::new().name("inbox-schema".into()).stack_size(STACK_BYTES);
        let parser = parser.spawn_scoped(scope, || read(fetched));
        let parser =
            parser.map_err(|error| format!("cannot start a thread to parse it: {error}"))?;
        parser.join().unwrap_or_else(|_| Err("the parser panicked".to_owned()))
    })
}

/// How many brackets are open at most. Those in texts and comments do not count, so both have to end here where they end
/// for the parser: a text that might be read otherwise is refused, as the parser does.
fn nesting(text: &str, format: Format) -> Result<usize, String> {
    let is_protobuf = format == Format::Protobuf;
    let (mut rest, mut open, mut most) = (text.as_bytes(), 0_usize, 0);
    while let [byte, behind @ ..] = rest {
        rest = match (byte, behind) {
            (b'"', _) => after_text(behind, b'"', is_protobuf)?,
            (b'\'', _) if is_protobuf => after_text(behind, b'\'', true)?,
            (b'#', _) | (b'/', [b'/', ..]) if is_protobuf => {
                after(behind, b"\n").unwrap_or_default()
            }
            (b'/', [b'*', comment @ ..]) if is_protobuf => {
                after(comment, b"*/").ok_or(UNREADABLE)?
            }
            _ => behind,
        };
        match byte {
            b'{' | b'[' | b'(' | b'<' => open += 1,
            b'}' | b']' | b')' | b'>' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    Ok(most)
}

/// What is behind a text.
fn after_text(text: &[u8], quote: u8, is_protobuf: bool) -> Result<&[u8], String> {
    let mut rest = text;
    loop {
        rest = match rest {
            [end, behind @ ..] if *end == quote => return Ok(behind),
            [b'\\', escape @ ..] => match (escape, is_protobuf) {
                ([_, behind @ ..], false) => behind,
                ([b'x' | b'X', digit, behind @ ..], true) if digit.is_ascii_hexdigit() => behind,
                ([b'u', digits @ ..], true) => after_digits(digits, 4)?,
                ([b'U', digits @ ..], true) => after_digits(digits, 8)?,
                ([known, behind @ ..], true) if b"01234567abfnrtv?\\'\"".contains(known) => behind,
                _ => return Err(UNREADABLE.to_owned()),
            },
            // Protobuf knows no text of two lines.
            [b'\n' | 0, ..] | [] => return Err(UNREADABLE.to_owned()),
            [_, behind @ ..] => behind,
        };
    }
}

fn after_digits(text: &[u8], count: usize) -> Result<&[u8], String> {
    let (digits, behind) = text.split_at_checked(count).ok_or(UNREADABLE)?;
    if digits.iter().all(u8::is_ascii_hexdigit) { Ok(behind) } else { Err(UNREADABLE.to_owned()) }
}

/// What is behind the first place that has the bytes.
fn after<'t>(text: &'t [u8], end: &[u8]) -> Option<&'t [u8]> {
    let at = text.windows(end.len()).position(|window| window == end)?;
    Some(&text[at + end.len()..])
}

#[cfg(test)]
mod tests;
