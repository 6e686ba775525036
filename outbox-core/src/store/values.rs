//! Messages of a database without the values in them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether messages are shown as they are.
static SHOWN: AtomicBool = AtomicBool::new(false);
/// What stands for a value.
const LEFT_OUT: &str = "…";
/// The key by which they are shown.
pub(super) const KEY: &str = "log.database_text";

/// Shows messages as they are from now on, in the whole process: they are part of what `Display` says of errors,
/// which knows no configuration.
pub fn show_values() {
    SHOWN.store(true, Relaxed);
}

/// Whether messages are shown as they are.
pub(super) fn shown() -> bool {
    SHOWN.load(Relaxed)
}

/// Words of PostgreSQL behind which quotes hold a name, not a value.
const NAMED: &[&str] = &[
    "aggregate",
    "attribute",
    "class",
    "collation",
    "column",
    "configuration",
    "constraint",
    "cursor",
    "database",
    "domain",
    "encoding",
    "extension",
    "field",
    "function",
    "index",
    "key",
    "language",
    "named",
    "operator",
    "parameter",
    "partition",
    "policy",
    "procedure",
    "publication",
    "record",
    "reference",
    "relation",
    "role",
    "rule",
    "schema",
    "sequence",
    "server",
    "setting",
    "slot",
    "statement",
    "statistics",
    "subscription",
    "table",
    "tablespace",
    "trigger",
    "type",
    "user",
    "variable",
    "view",
];

/// Marks that messages quote by, in the languages that servers speak: what opens, and what closes.
const QUOTES: [(char, char); 9] = [
    ('"', '"'),
    ('`', '`'),
    ('»', '«'),
    ('«', '»'),
    ('“', '”'),
    ('„', '“'),
    ('‘', '’'),
    ('「', '」'),
    ('\'', '\''),
];

/// A message of the database itself: names stay, and from the first value on, which may hold quotes, everything up to
/// the last quote goes.
pub(super) fn without_values(message: &str) -> String {
    let mut text = String::new();
    let mut rest = message;
    while let Some((at, open)) = rest.char_indices().find(|(_, c)| is_open(*c)) {
        // The mark of an elision ("can't") opens nothing.
        let elision = open == '\'' && rest[..at].ends_with(char::is_alphanumeric);
        let behind = at + open.len_utf8();
        if elision {
            text.push_str(&rest[..behind]);
            rest = &rest[behind..];
            continue;
        }
        text.push_str(&rest[..at]);
        let word = text.split_whitespace().next_back().unwrap_or_default().to_lowercase();
        let end =
            closing(open).and_then(|close| rest[behind..].find(close).map(|end| (end, close)));
        match end {
            Some((end, close)) if is_name(&word, &rest[behind..behind + end]) => {
                let end = behind + end + close.len_utf8();
                text.push_str(&rest[at..end]);
                rest = &rest[end..];
            }
            _ => {
                text.push_str(LEFT_OUT);
                let last = rest.char_indices().rfind(|(_, c)| is_close(*c));
                rest = last
                    .filter(|(last, _)| *last > at)
                    .map_or("", |(last, c)| &rest[last + c.len_utf8()..]);
            }
        }
    }
    text.push_str(rest);
    text
}

/// Whether what is quoted behind a word is a name of the schema, or the word at which a statement could not be read.
fn is_name(word: &str, quoted: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphabetic() || c == '_';
    NAMED.contains(&word) || (word == "near" && !quoted.is_empty() && quoted.chars().all(plain))
}

fn is_open(c: char) -> bool {
    QUOTES.iter().any(|(open, _)| *open == c)
}

fn is_close(c: char) -> bool {
    QUOTES.iter().any(|(_, close)| *close == c)
}

fn closing(open: char) -> Option<char> {
    QUOTES.iter().find(|(mark, _)| *mark == open).map(|(_, close)| *close)
}

/// A text that a function or a trigger of the application raises, which has put values into it as it likes: quotes
/// and words with a digit or an `@` go.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) fn raised_without_values(message: &str) -> String {
    let value = |word: &str| word.contains(|c: char| c.is_numeric() || c == '@');
    let text = without_values(message);
    let words = text.split(' ').map(|word| if value(word) { LEFT_OUT } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// `(a, b)` of a detail such as `Key (a, b)=(1, 2) already exists.`, in whatever language.
#[cfg(feature = "postgres")]
pub(super) fn key_of(detail: &str) -> Option<&str> {
    let (before, _) = detail.split_once(")=(")?;
    let at = before.find('(')?;
    Some(&before[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_and_values_go() {
        let table = [
            (
                "invalid input syntax for type uuid: \"DE89\"",
                "invalid input syntax for type uuid: …",
            ),
            (
                "invalid input syntax for type uuid: \"a \"b\" c\"",
                "invalid input syntax for type uuid: …",
            ),
            (
                "value \"99999999999\" is out of range for type integer",
                "value … is out of range for type integer",
            ),
            ("invalid input value for enum mood: \"DE89\"", "invalid input value for enum mood: …"),
            (
                "invalid value for parameter \"TimeZone\": \"DE89\"",
                "invalid value for parameter \"TimeZone\": …",
            ),
            (
                "ungültige Eingabesyntax für Typ uuid: »DE89«",
                "ungültige Eingabesyntax für Typ uuid: …",
            ),
            (
                "syntaxe en entrée invalide pour le type uuid : « DE89 »",
                "syntaxe en entrée invalide pour le type uuid : …",
            ),
            ("syntax error at or near \"'DE89'\"", "syntax error at or near …"),
            ("an open \"quote", "an open …"),
        ];
        for (message, without) in table {
            assert_eq!(without_values(message), without);
        }
        let names = [
            "duplicate key value violates unique constraint \"accounts_pkey\"",
            "null value in column \"n\" of relation \"strict\" violates not-null constraint",
            "new row for relation \"accounts\" violates check constraint \"positive\"",
            "relation \"acounts\" does not exist",
            "column reference \"id\" is ambiguous",
            "syntax error at or near \"FORM\"",
            "UNIQUE constraint failed: accounts.iban",
            "value too long for type character varying(3)",
            "a user's text can't end",
        ];
        for message in names {
            assert_eq!(without_values(message), message);
        }
    }

    #[test]
    fn a_raised_text_keeps_its_words() {
        assert_eq!(raised_without_values("not today"), "not today");
        let raised = "account DE89370400440532013000 of 'ada@example.org' has 12.50 left";
        assert_eq!(raised_without_values(raised), "account … of … has … left");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_key_is_told_by_its_columns() {
        assert_eq!(key_of("Key (iban)=(DE89) already exists."), Some("iban"));
        assert_eq!(key_of("Schlüssel »(a, b)=(1, (2))« existiert bereits."), Some("a, b"));
        assert_eq!(key_of("Failing row contains (DE89, null)."), None);
    }
}
