//! Which statements a handler may not run: those that end, nest or weaken the runtime's transaction, stay on its
//! session, or change the inbox's own tables.
//!
//! This is advice given early, with a sentence; it cannot be complete (`DO`, `CALL` and functions
//! can hide a COMMIT). What slips through is caught by the advance, which demands the transaction
//! of the claim and the rows of it, or taken back when the transaction is over.

use inbox_engine::internal::Rule;

use super::{
    lexer::{Dialect, Lexer, Token},
    names::{Names, names},
};
use crate::port::{RefusedText, TextCheck};

/// Words at the start of a statement that decide about it.
const HEAD_MAX: usize = 4;

/// Settings that decide how durable or how isolated the runtime's transaction is, and under which
/// names and rights its last statement runs; or that switch off what other events of the transaction rely on.
const SETTINGS: [&str; 14] = [
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
    "session_replication_role",
    "row_security",
];

const VERBS: [&str; 8] =
    ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"];

const OWNED: &str = "the consumer owns its transaction, which also contains its other events; use \
                     tx.savepoint() for a part that may fail, and do not change the settings of \
                     the transaction";
const SET: &str = "it would affect later events on this connection, too; use SET LOCAL, which \
                   ends with the transaction";
const COPY: &str = "the rows of COPY are sent outside of its text, which a query does not \
                    support; use copy_in_raw or copy_out_raw of the connection from tx.unguarded()";
const HOLD: &str = "the cursor would stay on this connection, which later events use; declare it \
                    without WITH HOLD";

/// Verbs that work on the session, and what to do instead.
const OF_THE_SESSION: [(&str, &str); 8] = [
    ("set", SET),
    ("reset", SET),
    (
        "listen",
        "it would stay on this connection, which later events use; use a connection of your own",
    ),
    ("unlisten", "later events use this connection, too; use a connection of your own"),
    (
        "prepare",
        "it would stay on this connection, which later events use; queries are prepared \
         automatically",
    ),
    (
        "deallocate",
        "the consumer keeps the statements that it prepared; queries are prepared \
                    automatically",
    ),
    ("discard", "later events use this connection, too; the consumer resets it itself"),
    ("load", "it would stay on this connection, which later events use; have the server load it"),
];

const TABLE: &str = "the table belongs to the inbox, and each effect happens once because of its \
                     rows; use your own tables, and the `parked`, `skip` and `retire` commands";

/// Looks at a text before it is sent. `refuses` names further first words that a handler may not run.
pub(crate) fn check(sql: &str, dialect: Dialect, refuses: fn(&str) -> bool) -> TextCheck {
    let named = names(sql, dialect);
    let mut text_check = TextCheck { refused: None, stays: named.stays };
    verbs(sql, dialect, refuses, &mut text_check);
    if text_check.refused.is_none() {
        text_check.refused = table(sql, dialect, named);
    }
    text_check
}

fn table(sql: &str, dialect: Dialect, named: Names) -> Option<RefusedText> {
    let table = named.changed(sql, dialect)?;
    let words = format!("a statement that changes {table}");
    Some(RefusedText { words, why: TABLE, rule: Rule::InboxTablesRefused })
}

fn verbs(sql: &str, dialect: Dialect, refuses: fn(&str) -> bool, text_check: &mut TextCheck) {
    // The usual semicolon at the end begins no further statement.
    let mut lexer = Lexer::new(sql.trim_end_matches([';', ' ', '\n', '\r', '\t']), dialect);
    let mut statement = Statement::default();
    let mut check = |statement: &Statement<'_>| {
        text_check.stays |= statement.stays(sql, dialect);
        text_check.refused =
            statement.refused(refuses).or_else(|| statement.of_the_session(sql, dialect));
        text_check.refused.is_some()
    };
    while let Some(token) = lexer.next() {
        statement.read(token, dialect);
        if statement.complete && !statement.checked {
            let last = token != Token::End && !lexer.another_statement();
            if check(&statement) || last {
                return;
            }
            statement.checked = true;
        }
        if token == Token::End && statement.body == 0 {
            statement = Statement::default();
        }
    }
    check(&statement);
}

/// Whether these words stand side by side somewhere in a text.
fn has(sql: &str, dialect: Dialect, words: [&str; 2]) -> bool {
    let mut before = "";
    Lexer::new(sql, dialect).any(|token| {
        let Token::Word(word) = token else { return false };
        let found = words[0].eq_ignore_ascii_case(before) && words[1].eq_ignore_ascii_case(word);
        before = word;
        found
    })
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

    /// What it makes is there until the session ends.
    fn stays(&self, sql: &str, dialect: Dialect) -> bool {
        let Some((first, rest)) = self.words().split_first().filter(|_| !self.checked) else {
            return false;
        };
        // What a block of code does is not looked at.
        let code = dialect.postgres() && one_of(first, &["do"]);
        let temporary = one_of(first, &["create"])
            && rest.iter().any(|word| one_of(word, &["temp", "temporary"]))
            && !has(sql, dialect, ["commit", "drop"]);
        code || temporary
    }

    fn of_the_session(&self, sql: &str, dialect: Dialect) -> Option<RefusedText> {
        let (first, rest) = self.words().split_first().filter(|_| !self.checked)?;
        if !dialect.postgres() {
            return None;
        }
        let refuse = |words: &str, why, rule| Some(RefusedText { words: words.into(), why, rule });
        let rule = Rule::SessionVerbsRefused;
        if one_of(first, &["copy"]) {
            let way = [["from", "stdin"], ["to", "stdout"]];
            let way = way.into_iter().find(|way| has(sql, dialect, *way))?;
            let words = format!("COPY {}", way.join(" ").to_ascii_uppercase());
            return refuse(&words, COPY, Rule::VerbsRefused);
        }
        if one_of(first, &["declare"]) {
            return if has(sql, dialect, ["with", "hold"]) {
                refuse("DECLARE … WITH HOLD", HOLD, rule)
            } else {
                None
            };
        }
        let (verb, why) = OF_THE_SESSION.into_iter().find(|(verb, _)| one_of(verb, &[first]))?;
        let second = rest.first().copied().unwrap_or_default();
        if verb == "set" && one_of(second, &["local", "constraints"]) {
            return None;
        }
        let words = if why == SET { format!("{verb} {second}") } else { verb.to_owned() };
        refuse(words.trim_end().to_ascii_uppercase().as_str(), why, rule)
    }

    fn refused(&self, refuses: fn(&str) -> bool) -> Option<RefusedText> {
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
        let words = self.words().get(..=named)?.join(" ").to_ascii_uppercase();
        Some(RefusedText { words, why: OWNED, rule: Rule::VerbsRefused })
    }
}

/// Where among the first `reach` words one of `wanted` stands, counted from the statement's first.
fn position(words: &[&str], reach: usize, wanted: &[&str]) -> Option<usize> {
    words.iter().take(reach).position(|word| one_of(word, wanted)).map(|at| at + 1)
}
