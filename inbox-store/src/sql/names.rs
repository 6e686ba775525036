//! Names in a text that matter: calls that may leave something on the session, and tables of the inbox.
//!
//! The text is looked through for underscores: all these names have one, and few texts have many.

use super::lexer::{Dialect, Lexer, Token, is_word};

/// The tables of the inbox. A table of a user may begin like them.
pub(super) const TABLES: [&str; 9] = [
    "inbox_audit",
    "inbox_consumers",
    "inbox_events",
    "inbox_lanes",
    "inbox_parked",
    "inbox_partitions",
    "inbox_schema_versions",
    "inbox_suspects",
    "inbox_versions",
];

/// What a text names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Names {
    /// Something that may stay on the session.
    pub(super) stays: bool,
    /// Perhaps a table of the inbox.
    inbox: bool,
}

/// Looks for names, wherever they stand.
pub(super) fn names(sql: &str, dialect: Dialect) -> Names {
    let (mut found, mut settings, mut from) = (Names::default(), 0, 0);
    while let Some(place) = sql.get(from..).and_then(|rest| rest.find('_')) {
        let (before, behind) = sql.as_bytes().split_at(from + place);
        found.inbox |= ends(before, b"inbox");
        if dialect.postgres() {
            found.stays |= ends(before, b"advisory") && begins(behind, b"_lock");
            found.stays |= ends(before, b"pg") && begins(behind, b"_temp");
            let call = ends(before, b"set") && begins(behind, b"_config");
            settings += usize::from(call && !in_word(before, behind));
        }
        from += place + 1;
    }
    // One in a string, as of `DO`, is no call that could be read: it counts as one that stays.
    found.stays |= settings > 0 && settings > settings_of_the_transaction(sql, dialect);
    found
}

impl Names {
    /// The table of the inbox that the text changes.
    pub(super) fn changed(self, sql: &str, dialect: Dialect) -> Option<&'static str> {
        if !self.inbox {
            return None;
        }
        let (mut before, mut next) = ("", Next::Other);
        for token in Lexer::new(sql, dialect) {
            let (Token::Word(word) | Token::Quoted(word)) = token else {
                next = next.behind(token);
                continue;
            };
            let table = TABLES.into_iter().find(|table| table.eq_ignore_ascii_case(word));
            if let Some(table) = table.filter(|_| next.is_changed()) {
                return Some(table);
            }
            next = next.behind_word(before, word);
            before = word;
        }
        None
    }
}

/// What stands next in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Other,
    /// A table that the statement changes; with `list`, others behind commas.
    Changed {
        list: bool,
    },
    /// Behind its name, or that of its schema.
    Named {
        list: bool,
    },
}

impl Next {
    fn is_changed(self) -> bool {
        matches!(self, Self::Changed { .. })
    }

    fn behind(self, token: Token<'_>) -> Self {
        match (self, token) {
            (Self::Named { list }, Token::Other(b'.'))
            | (Self::Named { list: list @ true }, Token::Other(b',')) => Self::Changed { list },
            _ => Self::Other,
        }
    }

    fn behind_word(self, before: &str, word: &str) -> Self {
        let is = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(word));
        match self {
            _ if is(&["truncate", "table", "lock"]) => Self::Changed { list: true },
            _ if is(&["into", "update", "copy"]) => Self::Changed { list: false },
            _ if is(&["from"]) && before.eq_ignore_ascii_case("delete") => {
                Self::Changed { list: false }
            }
            // `UPDATE ONLY t`, `DROP TABLE IF EXISTS t`, `UPDATE OR IGNORE t`.
            Self::Changed { .. }
                if is(&[
                    "only", "if", "not", "exists", "or", "ignore", "replace", "abort", "fail",
                ]) =>
            {
                self
            }
            Self::Changed { list } => Self::Named { list },
            _ => Self::Other,
        }
    }
}

fn ends(text: &[u8], word: &[u8]) -> bool {
    let at = text.len().checked_sub(word.len());
    at.and_then(|at| text.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(word))
}

fn begins(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Whether `set_config` is but a part of a longer name.
fn in_word(before: &[u8], behind: &[u8]) -> bool {
    let first = before.len().checked_sub(b"set".len() + 1).and_then(|at| before.get(at));
    [first, behind.get(b"_config".len())].into_iter().flatten().copied().any(is_word)
}

/// Calls of `set_config` that end with `, true)`.
fn settings_of_the_transaction(sql: &str, dialect: Dialect) -> usize {
    let mut tokens = Lexer::new(sql, dialect);
    let mut count = 0;
    while let Some(token) = tokens.next() {
        let (Token::Word(name) | Token::Quoted(name)) = token else { continue };
        count += usize::from(name.eq_ignore_ascii_case("set_config") && local(&mut tokens));
    }
    count
}

/// Whether the call that begins here ends with `, true)`.
fn local<'a>(tokens: &mut impl Iterator<Item = Token<'a>>) -> bool {
    let (mut depth, mut before, mut last) = (0_u32, Token::End, Token::End);
    for token in tokens {
        match token {
            Token::Other(b'(') => depth += 1,
            Token::Other(b')') if depth <= 1 => break,
            Token::Other(b')') => depth -= 1,
            _ => {}
        }
        (before, last) = (last, token);
    }
    let is_true = |token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("true"));
    before == Token::Other(b',') && is_true(last)
}
