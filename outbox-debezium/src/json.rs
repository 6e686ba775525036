//! JSON as Jackson reads and writes it.
//!
//! Read by hand, since the difference between `1`, `1.0` and a number that no 64 bits hold has to be seen, and names keep
//! their order. Written by hand, since Jackson escapes what lies beyond 16 bits as two halves, in capitals.

use std::{collections::HashMap, fmt::Write as _};

/// How deep arrays and objects may stand in each other, so that no thread runs out of stack. (Jackson takes 1000.)
const DEPTH_MAX: usize = 200;

/// A document.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Json {
    Null,
    Boolean(bool),
    Int(i64),
    /// A whole number that no 64 bits hold.
    Big,
    Double(f64),
    String(String),
    Array(Vec<Self>),
    /// A name that occurs twice has its first place and its last value.
    Object(Vec<(String, Self)>),
}

/// Reads a document; what follows it is not looked at. `None`: it is none.
pub(crate) fn read(text: &str) -> Option<Json> {
    let mut reader = Reader { rest: text };
    reader.value(0)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    /// The next token that is no space, without taking it.
    fn next(&mut self) -> Option<u8> {
        self.skip_space();
        self.rest.bytes().next()
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.next()? {
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            b'"' => self.string().map(Json::String),
            b't' => self.take("true").map(|()| Json::Boolean(true)),
            b'f' => self.take("false").map(|()| Json::Boolean(false)),
            b'n' => self.take("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.take("{")?;
        let mut fields: Vec<(String, Json)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        if self.next()? == b'}' {
            self.take("}")?;
            return Some(Json::Object(fields));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            self.take(":")?;
            let value = self.value(depth)?;
            match places.get(&name) {
                Some(&place) => fields.get_mut(place)?.1 = value,
                None => {
                    places.insert(name.clone(), fields.len());
                    fields.push((name, value));
                }
            }
            match self.next()? {
                b',' => self.take(",")?,
                _ => return self.take("}").map(|()| Json::Object(fields)),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json> {
        self.take("[")?;
        let mut values = Vec::new();
        if self.next()? == b']' {
            return self.take("]").map(|()| Json::Array(values));
        }
        loop {
            values.push(self.value(depth)?);
            match self.next()? {
                b',' => self.take(",")?,
                _ => return self.take("]").map(|()| Json::Array(values)),
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut text = String::new();
        loop {
            let end = self.rest.find(|c: char| c == '"' || c == '\\' || c < ' ')?;
            text.push_str(self.rest.get(..end)?);
            self.rest = self.rest.get(end..)?;
            if self.take("\"").is_some() {
                return Some(text);
            }
            self.take("\\")?;
            let escape = self.rest.chars().next()?;
            self.rest = self.rest.get(escape.len_utf8()..)?;
            text.push(match escape {
                '"' | '\\' | '/' => escape,
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => self.unicode()?,
                _ => return None,
            });
        }
    }

    /// What follows `\u`. Half of a pair alone is no character, and no text of ours can hold it.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hex()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first);
        }
        self.take("\\u")?;
        let second = self.hex()?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
        char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + second)
    }

    fn hex(&mut self) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.rest = rest;
        u32::from_str_radix(digits, 16).ok()
    }

    fn number(&mut self) -> Option<Json> {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let signed = |text: &str| digits(text.strip_prefix(['+', '-']).unwrap_or(text));
        let is_number = digits(whole)
            && (whole == "0" || !whole.starts_with('0'))
            && fraction.is_none_or(digits)
            && exponent.is_none_or(signed);
        if !is_number {
            return None;
        }
        self.rest = rest;
        if fraction.is_none() && exponent.is_none() {
            return Some(text.parse().map_or(Json::Big, Json::Int));
        }
        text.parse().ok().map(Json::Double)
    }
}

/// Writes a string.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' || u32::from(c) > 0xFFFF => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}")
                        .unwrap_or_else(|_| unreachable!("a string takes everything"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(json: &Json) -> String {
        let mut out = String::new();
        match json {
            Json::Null => out.push_str("null"),
            Json::Boolean(value) => out = value.to_string(),
            Json::Int(value) => out = value.to_string(),
            Json::Big => out.push_str("123456789012345678901"),
            Json::Double(value) => out = format!("{value:e}"),
            Json::String(text) => write_string(&mut out, text),
            Json::Array(values) => {
                let values: Vec<String> = values.iter().map(written).collect();
                out = format!("[ {}]", values.join(" ,"));
            }
            Json::Object(fields) => {
                let field = |(name, value): &(String, Json)| {
                    let mut out = String::new();
                    write_string(&mut out, name);
                    format!("{out} : {}", written(value))
                };
                let fields: Vec<String> = fields.iter().map(field).collect();
                out = format!("{{{}\n}}", fields.join(",\t"));
            }
        }
        out
    }

    fn documents() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            Just(Json::Big),
            any::<bool>().prop_map(Json::Boolean),
            any::<i64>().prop_map(Json::Int),
            (-1e300..1e300).prop_map(Json::Double),
            ".*".prop_map(Json::String),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let fields = prop::collection::btree_map(".{0,4}", inner.clone(), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Json::Array),
                fields.prop_map(|fields| Json::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(json in documents()) {
            prop_assert_eq!(read(&written(&json)), Some(json));
        }

        #[test]
        fn what_serde_reads_is_read_and_nothing_panics(text in r#"[\[\]{}",:0-9eE+.\\ntrufalsu -]{0,30}"#) {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            // Ours ends with the document, whatever follows.
            prop_assert!(theirs.is_err() || read(&text).is_some(), "{}", text);
        }
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":}",
            "01",
            "1.",
            "-",
            "1e",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\u{1}\"",
            "nul",
            "{a:1}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read(&deep), None);
        let pair = Some(Json::String("😀".into()));
        assert_eq!(read("\"\\ud83d\\uDE00\""), pair);
        let twice = read(r#"{"a":1,"b":2,"a":3} and more"#);
        assert_eq!(
            twice,
            Some(Json::Object(vec![("a".into(), Json::Int(3)), ("b".into(), Json::Int(2))]))
        );
    }
}
