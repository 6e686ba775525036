//! Reading the statement of a declared handler, whatever the database: what it may be, and where the
//! relation of events goes in.

use crate::sql::{Dialect, Lexer, Token};

/// A user's statement, taken apart as far as it has to be.
#[derive(Debug)]
pub(super) struct Read<'a> {
    /// The text that follows the relation: the statement, without a `WITH` of its own.
    pub(super) body: &'a str,
    /// The statement began with `WITH`: its queries go behind ours.
    pub(super) with: Option<With>,
    /// It is a SELECT: it yields rows.
    #[cfg(feature = "postgres")]
    pub(super) select: bool,
}

/// How a statement begins that names queries first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum With {
    Plain,
    Recursive,
}

impl Read<'_> {
    /// The characters of `sql` that are before the body.
    pub(super) fn skipped(&self, sql: &str) -> usize {
        // The body is a part of `sql` itself.
        let at = self.body.as_ptr().addr() - sql.as_ptr().addr();
        sql[..at].chars().count()
    }

    /// The statement with `relation`, the text of a query, in front of it as `events`. Answers how many
    /// characters are before the body, too.
    pub(super) fn reading(&self, relation: &str) -> (String, usize) {
        let recursive = if self.with == Some(With::Recursive) { "RECURSIVE " } else { "" };
        let joint = if self.with.is_some() { ", " } else { "\n" };
        let mut text = format!("WITH {recursive}events AS ({relation}){joint}");
        let before = text.chars().count();
        text.push_str(self.body);
        // A comment at the end of the user's text must not swallow what follows.
        text.push('\n');
        (text, before)
    }
}

/// Words before a parenthesis that call no function.
const NO_FUNCTIONS: [&str; 27] = [
    "all",
    "and",
    "any",
    "as",
    "by",
    "case",
    "distinct",
    "else",
    "except",
    "exists",
    "filter",
    "from",
    "group",
    "having",
    "in",
    "intersect",
    "join",
    "lateral",
    "materialized",
    "not",
    "on",
    "or",
    "over",
    "select",
    "union",
    "values",
    "where",
];

/// Reads a statement. An error is the rest of a sentence that begins with it.
pub(super) fn read(sql: &str, dialect: Dialect) -> Result<Read<'_>, String> {
    if sql.contains('\0') {
        return Err("contains a NUL character; remove it".into());
    }
    let mut reading = Reading::default();
    let mut lexer = Lexer::new(sql, dialect);
    while let Some(token) = lexer.next() {
        let place = lexer.place();
        parameter(sql, token, place.end, dialect)?;
        reading.take(token, place)?;
    }
    reading.finish(sql, dialect)
}

/// What has been read so far.
#[derive(Default)]
struct Reading<'a> {
    depth: u32,
    verb: Option<&'a str>,
    with: Option<With>,
    /// Where the body begins.
    body: Option<usize>,
    /// Where the first semicolon is.
    end: Option<usize>,
    returning: bool,
    into: bool,
    calls: bool,
    /// The word right before, if there is one.
    word: Option<&'a str>,
}

impl<'a> Reading<'a> {
    fn take(&mut self, token: Token<'a>, place: std::ops::Range<usize>) -> Result<(), String> {
        if self.end.is_some() {
            if token == Token::End {
                return Ok(());
            }
            return Err(
                "holds several statements; a declared handler has one: combine them (WITH …), or \
                 put them into a function and call it"
                    .into(),
            );
        }
        match token {
            Token::End => self.end = Some(place.start),
            Token::Word(word) => self.word(word, place.clone())?,
            Token::Other(b'(') => {
                self.calls |= self.word.is_some_and(|word| !one_of(word, &NO_FUNCTIONS));
                self.depth += 1;
            }
            Token::Other(b')') => self.depth = self.depth.saturating_sub(1),
            Token::Quoted(_) | Token::Other(_) => {}
        }
        if self.verb.is_none() && self.with.is_none() && token != Token::End {
            return Err(not_of_rows(None));
        }
        self.word = match token {
            Token::Word(word) | Token::Quoted(word) => Some(word),
            _ => None,
        };
        Ok(())
    }

    fn word(&mut self, word: &'a str, place: std::ops::Range<usize>) -> Result<(), String> {
        if self.depth > 0 {
            return Ok(());
        }
        if self.body.is_none() && one_of(word, &["with"]) {
            (self.with, self.body) = (Some(With::Plain), Some(place.end));
            return Ok(());
        }
        if self.body.is_none() {
            self.body = Some(place.start);
        }
        if self.verb.is_none() {
            self.first_words(word, place)?;
            return Ok(());
        }
        self.returning |= one_of(word, &["returning"]);
        self.into |= one_of(word, &["into"]);
        Ok(())
    }

    /// Up to the verb: `RECURSIVE`, names of queries, and what stands between them.
    fn first_words(&mut self, word: &'a str, place: std::ops::Range<usize>) -> Result<(), String> {
        if one_of(word, &["delete", "insert", "merge", "replace", "select", "update"]) {
            self.verb = Some(word);
        } else if self.with.is_none() {
            return Err(not_of_rows(Some(word)));
        } else if self.word.is_some_and(|before| one_of(before, &["with"]))
            && one_of(word, &["recursive"])
        {
            (self.with, self.body) = (Some(With::Recursive), Some(place.end));
        }
        Ok(())
    }

    fn finish(self, sql: &'a str, dialect: Dialect) -> Result<Read<'a>, String> {
        let (Some(verb), Some(body)) = (self.verb, self.body) else {
            return Err(if self.with.is_some() || self.end.is_some() {
                not_of_rows(None)
            } else {
                empty()
            });
        };
        let select = one_of(verb, &["select"]);
        let postgres = dialect.postgres();
        if (postgres && one_of(verb, &["replace"])) || (!postgres && one_of(verb, &["merge"])) {
            return Err(not_of_rows(Some(verb)));
        }
        if select && self.into {
            return Err("creates a table (SELECT … INTO); insert into one instead".into());
        }
        if select && !(postgres && self.calls) {
            return Err(
                "only reads: a SELECT has an effect only through your own function, which SQLite \
                 does not support; write INSERT, UPDATE or DELETE"
                    .into(),
            );
        }
        if self.returning {
            return Err("returns rows that nothing reads; remove RETURNING".into());
        }
        let body = sql[body..self.end.unwrap_or(sql.len())].trim_end();
        Ok(Read {
            body,
            with: self.with,
            #[cfg(feature = "postgres")]
            select,
        })
    }
}

fn empty() -> String {
    "is empty; write INSERT, UPDATE, DELETE or MERGE".into()
}

fn not_of_rows(word: Option<&str>) -> String {
    let begins = match word {
        Some(word) => format!("begins with {}", word.to_ascii_uppercase()),
        None => "does not begin with a verb".into(),
    };
    format!(
        "{begins}; a declared handler inserts, updates, deletes or merges rows (MERGE: PostgreSQL), or \
         calls functions by SELECT (PostgreSQL)"
    )
}

/// Nothing but the relation is bound, and that by us.
fn parameter(sql: &str, token: Token<'_>, end: usize, dialect: Dialect) -> Result<(), String> {
    let next = sql.as_bytes().get(end).copied().unwrap_or(b' ');
    let named = next.is_ascii_alphanumeric() || next == b'_';
    let found = match token {
        // A dollar quote is read as a whole: it ends with a dollar.
        Token::Other(b'$') if dialect.postgres() => {
            next.is_ascii_digit() && sql[..end].ends_with('$')
        }
        Token::Other(b'$' | b':' | b'@' | b'#') if !dialect.postgres() => named,
        Token::Other(b'?') => !dialect.postgres(),
        _ => false,
    };
    if !found {
        return Ok(());
    }
    Err("has a parameter ($1, ?, :name); values of an event are columns of the relation: write \
         `e.name … FROM events e`"
        .into())
}

fn one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|w| w.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_on(sql: &str) -> Result<Read<'_>, String> {
        read(sql, Dialect::Postgres)
    }

    #[test]
    fn a_statement_reads_the_relation_wherever_it_begins() {
        let table = [
            ("UPDATE a SET b = 1", "WITH events AS (R)\nUPDATE a SET b = 1\n"),
            (
                "  -- why\n /* not */ delete from a ; ; -- end",
                "WITH events AS (R)\ndelete from a\n",
            ),
            (
                "WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x;",
                "WITH events AS (R),  x AS (SELECT 1) INSERT INTO a SELECT * FROM x\n",
            ),
            (
                "with recursive x(n) as (select 1) update a set b = n from x",
                "WITH RECURSIVE events AS (R),  x(n) as (select 1) update a set b = n from x\n",
            ),
            (
                "INSERT INTO a VALUES (';', $$;$1$$, $t$ ? $t$, E'\\';') -- ; no",
                "WITH events AS (R)\nINSERT INTO a VALUES (';', $$;$1$$, $t$ ? $t$, E'\\';') -- ; no\n",
            ),
            (
                "SELECT credit(e.a) FROM events e",
                "WITH events AS (R)\nSELECT credit(e.a) FROM events e\n",
            ),
            (
                "WITH gone AS (DELETE FROM a RETURNING b) INSERT INTO c SELECT b FROM gone",
                "WITH events AS (R),  gone AS (DELETE FROM a RETURNING b) INSERT INTO c SELECT b FROM gone\n",
            ),
        ];
        for (sql, expected) in table {
            let read = read_on(sql).unwrap();
            let (text, before) = read.reading("R");
            assert_eq!(text, expected);
            let own: String = text.chars().skip(before).collect();
            let skipped: String = sql.chars().skip(read.skipped(sql)).collect();
            assert!(skipped.starts_with(own.trim_end()), "{own} is where {skipped} is");
        }
    }

    #[test]
    fn what_is_no_single_statement_of_rows_is_refused() {
        let table = [
            ("", "is empty"),
            ("-- nothing", "is empty"),
            (";", "does not begin with a verb"),
            ("CREATE TABLE a (b int)", "begins with CREATE"),
            ("COMMIT", "begins with COMMIT"),
            ("TRUNCATE a", "begins with TRUNCATE"),
            ("DO $$ BEGIN END $$", "begins with DO"),
            ("CALL f()", "begins with CALL"),
            ("REPLACE INTO a VALUES (1)", "begins with REPLACE"),
            ("(SELECT 1)", "does not begin with a verb"),
            ("WITH x AS (SELECT 1) TABLE x", "does not begin with a verb"),
            ("UPDATE a SET b = 1; UPDATE a SET b = 2", "several statements"),
            ("UPDATE a SET b = 1; COMMIT", "several statements"),
            ("UPDATE a SET b = $1", "has a parameter"),
            ("UPDATE a SET b = 1 RETURNING b", "returns rows that nothing reads"),
            ("SELECT f(1) INTO t", "creates a table"),
            ("SELECT * FROM events", "only reads"),
            ("SELECT a FROM events WHERE a IN (1)", "only reads"),
            ("UPDATE a SET b = '\0'", "NUL"),
        ];
        for (sql, expected) in table {
            let refused = read_on(sql).unwrap_err();
            assert!(refused.contains(expected), "{sql:?}: {refused}");
        }
    }

    #[test]
    fn what_sqlite_has_and_has_not() {
        let on = |sql| read(sql, Dialect::Sqlite);
        for sql in ["UPDATE a SET b = ?", "UPDATE a SET b = ?1", "DELETE FROM a WHERE b = :b"] {
            assert!(on(sql).unwrap_err().contains("has a parameter"), "{sql}");
        }
        for sql in ["DELETE FROM a WHERE b = @b", "DELETE FROM a WHERE b = $b"] {
            assert!(on(sql).unwrap_err().contains("has a parameter"), "{sql}");
        }
        assert!(on("SELECT f(1)").unwrap_err().contains("only reads"));
        assert!(on("MERGE INTO a USING b ON true").unwrap_err().contains("begins with MERGE"));
        assert!(on("REPLACE INTO a VALUES ('?')").is_ok());
        assert!(read_on("UPDATE a SET b = c -> 'd' ? 'e', f = g[1:2]::int[]").is_ok());
    }
}
