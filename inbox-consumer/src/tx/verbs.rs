//! Which statements a handler may not run: those that end, nest or weaken the runtime's transaction.
//!
//! This is advice given early, with a sentence; it cannot be complete (`DO`, `CALL` and functions
//! can hide a COMMIT). What slips through is caught by the advance, which demands the transaction
//! of the claim.

use super::lexer::{Dialect, Lexer, Token};

/// Words at the start of a statement that decide about it.
const HEAD_MAX: usize = 4;

/// Settings that decide how durable or how isolated the runtime's transaction is, and under which
/// names and rights its last statement runs.
const SETTINGS: [&str; 12] = [
    "transaction",
    "characteristics",
    "synchronous_commit",
    "transaction_isolation",
    "transaction_read_only",
    "transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "default_transaction_deferrable",
    "search_path",
    "role",
    "authorization",
];

const VERBS: [&str; 8] =
    ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"];

/// The words of the first statement in `sql` that a handler may not run, for the error's sentence.
/// `refuses` names further first words.
pub(crate) fn refused(sql: &str, dialect: Dialect, refuses: fn(&str) -> bool) -> Option<String> {
    // The usual semicolon at the end begins no further statement.
    let mut lexer = Lexer::new(sql.trim_end_matches([';', ' ', '\n', '\r', '\t']), dialect);
    let mut statement = Statement::default();
    while let Some(token) = lexer.next() {
        statement.read(token, dialect);
        if statement.complete && !statement.checked {
            if let Some(words) = statement.refused(refuses) {
                return Some(words);
            }
            if token != Token::End && !lexer.another_statement() {
                return None;
            }
            statement.checked = true;
        }
        if token == Token::End && statement.body == 0 {
            statement = Statement::default();
        }
    }
    statement.refused(refuses)
}

fn one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|w| w.eq_ignore_ascii_case(word))
}

/// The statement being read.
#[derive(Default)]
struct Statement<'a> {
    head: [&'a str; HEAD_MAX],
    len: usize,
    /// No further word belongs to the head.
    complete: bool,
    /// The head has been looked at.
    checked: bool,
    /// The word before, for `BEGIN ATOMIC`.
    before: &'a str,
    /// How deep the scan is in a routine's body, whose semicolons end nothing.
    body: u32,
}

impl<'a> Statement<'a> {
    fn read(&mut self, token: Token<'a>, dialect: Dialect) {
        match token {
            Token::Word(word) => {
                self.track_body(word, dialect);
                self.before = word;
                self.push(word);
            }
            Token::Quoted(word) if self.len > 0 => self.push(word),
            Token::Other(b'(') if self.len == 0 => {}
            Token::End if self.body > 0 => {}
            _ => self.complete = true,
        }
    }

    fn push(&mut self, word: &'a str) {
        if self.complete {
            return;
        }
        if let Some(place) = self.head.get_mut(self.len) {
            *place = word;
            self.len += 1;
        }
        // Most first words decide alone; reading on would only cost time.
        self.complete =
            self.len == HEAD_MAX || !one_of(self.head[0], &["set", "reset", "prepare", "create"]);
    }

    fn words(&self) -> &[&'a str] {
        self.head.get(..self.len).unwrap_or_default()
    }

    /// `CREATE TRIGGER … BEGIN …; END` and `CREATE FUNCTION … BEGIN ATOMIC …; END` hold statements.
    fn track_body(&mut self, word: &str, dialect: Dialect) {
        if !self.creates_routine() {
            return;
        }
        let opens = match dialect {
            #[cfg(any(feature = "postgres", test))]
            Dialect::Postgres => one_of(word, &["atomic"]) && one_of(self.before, &["begin"]),
            #[cfg(any(feature = "sqlite", test))]
            Dialect::Sqlite => one_of(word, &["begin"]),
        };
        match self.body {
            0 => self.body = u32::from(opens),
            _ if one_of(word, &["begin", "case"]) => self.body += 1,
            _ if one_of(word, &["end"]) => self.body -= 1,
            _ => {}
        }
    }

    fn creates_routine(&self) -> bool {
        let mut words = self.words().iter().copied();
        words.next().is_some_and(|first| one_of(first, &["create"]))
            && words
                .find(|word| !one_of(word, &["or", "replace", "temp", "temporary"]))
                .is_some_and(|what| one_of(what, &["function", "procedure", "trigger"]))
    }

    fn refused(&self, refuses: fn(&str) -> bool) -> Option<String> {
        let (first, rest) = self.words().split_first().filter(|_| !self.checked)?;
        let named = match *first {
            verb if one_of(verb, &VERBS) || refuses(verb) => Some(0),
            verb if one_of(verb, &["prepare"]) => position(rest, 1, &["transaction"]),
            verb if one_of(verb, &["set"]) => position(rest, 2, &SETTINGS),
            verb if one_of(verb, &["reset"]) => {
                position(rest, 2, &SETTINGS).or_else(|| position(rest, 1, &["all"]))
            }
            _ => None,
        }?;
        Some(self.words().get(..=named)?.join(" ").to_ascii_uppercase())
    }
}

/// Where among the first `reach` words one of `wanted` stands, counted from the statement's first.
fn position(words: &[&str], reach: usize, wanted: &[&str]) -> Option<usize> {
    words.iter().take(reach).position(|word| one_of(word, wanted)).map(|at| at + 1)
}
