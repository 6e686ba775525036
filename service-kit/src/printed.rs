//! What a terminal or a log is given: nothing in it moves a cursor, changes a colour or turns text round.
//!
//! Types, ids, aggregates and errors come from strangers. Commands write through
//! [`Terminal`](crate::cli::Terminal) and logs through their writer, and both write nothing that has not
//! been here.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
};

use serde::Serialize;

/// Whether a terminal does something with it instead of showing it: controls (C0, C1, DEL), marks of direction,
/// separators of lines.
fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What is shown in the place of a letter.
pub fn visible(letter: char) -> char {
    if acts(letter) { '\u{fffd}' } else { letter }
}

/// `1 event`, `2 events`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    let many = if count == N::from(1) { "" } else { "s" };
    format!("{count} {one}{many}")
}

/// Text as one line.
pub fn line(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// Text of any number of lines.
pub fn lines(text: &str) -> Cow<'_, str> {
    let kept = |letter: char| matches!(letter, '\n' | '\t');
    if !text.contains(|letter| acts(letter) && !kept(letter)) {
        return Cow::Borrowed(text);
    }
    let shown = |letter| if kept(letter) { letter } else { visible(letter) };
    Cow::Owned(text.chars().map(shown).collect())
}

/// A document for machines and for the eyes of people, with nothing lost: what acts is written as JSON escapes it.
pub fn json(document: &(impl Serialize + ?Sized)) -> String {
    escaped(&serde_json::to_string_pretty(document).unwrap_or_default()).into_owned()
}

/// JSON text with what acts inside its strings as `\u....`; what acts is nowhere else, but for ends of lines.
pub fn escaped(json: &str) -> Cow<'_, str> {
    let raw = |letter: char| acts(letter) && letter != '\n';
    if !json.contains(raw) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if raw(letter) {
            let _ = write!(text, "\\u{:04x}", u32::from(letter));
        } else {
            text.push(letter);
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_replaced_and_everything_else_stays() {
        let text = "Größe 5\u{a0}€ 名\u{1b}[31m\u{9b}2J\u{85}\u{7f}\0\r\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\t\n.";
        let shown = "Größe 5\u{a0}€ 名\u{fffd}[31m\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}\
                     \u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\t\n.";
        assert_eq!(lines(text), shown);
        assert_eq!(line(text), shown.replace(['\t', '\n'], "\u{fffd}"));
    }

    #[test]
    fn json_stays_what_it_is() {
        let text = "\u{1b}\u{9b}\u{7f}\u{202e}\u{2069}\u{2028}\0\r\n\t\"\\ü";
        let document = json(&[text]);
        assert!(document.chars().all(|letter| letter == '\n' || !acts(letter)), "{document}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&document).unwrap(), [text]);
    }
}
