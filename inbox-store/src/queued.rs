//! Queued statements as steps of a function: which texts can be one, and its text.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    port::{RegistrySnapshot, StatementText},
    sql::{Dialect, Lexer, Token},
};

/// A type whose values travel together.
pub(super) struct Kind {
    /// Its number.
    pub(super) oid: u32,
    /// The number of its array.
    pub(super) array: u32,
    name: &'static str,
}

const fn kind(oid: u32, array: u32, name: &'static str) -> Kind {
    Kind { oid, array, name }
}

/// The types in the order in which the function takes them.
pub(super) const KINDS: [Kind; 16] = [
    kind(16, 1000, "boolean"),
    kind(17, 1001, "bytea"),
    kind(20, 1016, "bigint"),
    kind(21, 1005, "smallint"),
    kind(23, 1007, "integer"),
    kind(25, 1009, "text"),
    kind(700, 1021, "real"),
    kind(701, 1022, "double precision"),
    kind(1082, 1182, "date"),
    kind(1083, 1183, "time"),
    kind(1114, 1115, "timestamp"),
    kind(1184, 1185, "timestamptz"),
    kind(1186, 1187, "interval"),
    kind(1700, 1231, "numeric"),
    kind(2950, 2951, "uuid"),
    kind(3802, 3807, "jsonb"),
];

/// The place of a type among [`KINDS`].
pub(super) fn place_of(oid: u32) -> Option<usize> {
    KINDS.iter().position(|kind| kind.oid == oid)
}

/// What the function puts in front of the number of the statement that failed.
pub(super) const FAILED_AT: &str = "inbox_queue ";

fn name(names: bool) -> &'static str {
    if names { "pg_temp.inbox_queue_named" } else { "pg_temp.inbox_queue" }
}

/// A function's name with what it takes.
pub(super) fn takes(names: bool) -> String {
    let arrays = KINDS.iter().map(|kind| format!(", inbox_v{} {}[]", kind.oid, kind.name));
    format!("{}(inbox_which smallint[]{})", name(names), arrays.collect::<String>())
}

/// Calls it.
pub(super) fn call(names: bool) -> String {
    let numbers: Vec<String> = (1..=KINDS.len() + 1).map(|n| format!("${n}")).collect();
    format!("SELECT {}({})", name(names), numbers.join(", "))
}

/// A function's body: statement by statement in the order of `inbox_which`, the values of each type
/// out of one array. If it `names` the statement that fails, then by a block of its own around the loop,
/// not around each statement: one subtransaction for all.
pub(super) fn body(snapshot: &RegistrySnapshot, names: bool) -> String {
    let mut most: BTreeMap<u32, usize> = BTreeMap::new();
    let mut cases = String::new();
    for (number, text) in &snapshot.texts {
        let Some(step) = step(text) else { continue };
        let _ = write!(cases, "WHEN {number} THEN\n{step}");
        for (oid, count) in counts(&text.types) {
            let most = most.entry(oid).or_default();
            *most = count.max(*most);
        }
    }
    let says = if names { SAYS } else { "" };
    let mut declared = String::new();
    for (oid, count) in most {
        let name = place_of(oid).map_or("text", |place| KINDS[place].name);
        let _ = writeln!(declared, "inbox_n{oid} integer := 0;");
        for n in 1..=count {
            let _ = writeln!(declared, "{} {name};", variable(oid, n));
        }
    }
    format!(
        "\n#variable_conflict use_column\nDECLARE\ninbox_at integer;\n{SAID}{declared}BEGIN\n\
         FOR inbox_step IN 1..cardinality(inbox_which) LOOP\ninbox_at := inbox_step;\n\
         CASE inbox_which[inbox_step]\n{cases}END CASE;\nEND LOOP;\n{says}END\n"
    )
}

const SAID: &str = "inbox_code text; inbox_said text; inbox_detail text; inbox_hint text;
inbox_column text; inbox_constraint text; inbox_table text; inbox_schema text;
";

/// The error as it was, with the number of the statement.
const SAYS: &str = "EXCEPTION WHEN OTHERS THEN
GET STACKED DIAGNOSTICS inbox_code = RETURNED_SQLSTATE, inbox_said = MESSAGE_TEXT,
inbox_detail = PG_EXCEPTION_DETAIL, inbox_hint = PG_EXCEPTION_HINT, inbox_column = COLUMN_NAME,
inbox_constraint = CONSTRAINT_NAME, inbox_table = TABLE_NAME, inbox_schema = SCHEMA_NAME;
RAISE EXCEPTION USING ERRCODE = inbox_code, MESSAGE = inbox_said, DETAIL = inbox_detail,
HINT = inbox_hint, COLUMN = inbox_column, CONSTRAINT = inbox_constraint, TABLE = inbox_table,
SCHEMA = inbox_schema, DATATYPE = 'inbox_queue ' || inbox_at;
";

/// The variable of the `n`th value of a type, from 1.
fn variable(oid: u32, n: usize) -> String {
    format!("inbox_s{oid}_{n}")
}

/// How many values of each type.
fn counts(types: &[u32]) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for oid in types {
        *counts.entry(*oid).or_default() += 1;
    }
    counts
}

/// Whether a text can be a step of the function.
pub(crate) fn fits(text: &StatementText) -> bool {
    step(text).is_some()
}

/// The values into variables, which the planner takes for what they are, and the statement.
fn step(text: &StatementText) -> Option<String> {
    let (mut step, mut names) = (String::new(), Vec::new());
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for oid in &text.types {
        place_of(*oid)?;
        let count = counts.entry(*oid).or_default();
        *count += 1;
        let name = variable(*oid, *count);
        let _ = writeln!(step, "{name} := inbox_v{oid}[inbox_n{oid} + {count}];");
        names.push(name);
    }
    for (oid, count) in counts {
        let _ = writeln!(step, "inbox_n{oid} := inbox_n{oid} + {count};");
    }
    let statement = Reading::default().read(text.sql.as_str(), &names)?;
    // A comment at the end of the user's text must not swallow the semicolon.
    let _ = writeln!(step, "{statement}\n;");
    Some(step)
}

/// A statement being read. `None` everywhere: it cannot be a step.
#[derive(Default)]
struct Reading<'a> {
    depth: u32,
    /// It begins with `WITH`.
    with: bool,
    verb: bool,
    /// The word right before, if there is one.
    before: &'a str,
    end: Option<usize>,
    text: String,
    /// Up to where the text was copied.
    copied: usize,
}

impl<'a> Reading<'a> {
    /// The statement with names instead of parameters.
    fn read(mut self, sql: &'a str, names: &[String]) -> Option<String> {
        if sql.contains('\0') {
            return None;
        }
        let mut lexer = Lexer::new(sql, Dialect::Postgres);
        while let Some(token) = lexer.next() {
            let place = lexer.place();
            if self.end.is_some() && token != Token::End {
                return None;
            }
            let word = if let Token::Word(word) = token { word } else { "" };
            match token {
                Token::End => self.end = Some(self.end.unwrap_or(place.start)),
                Token::Word(word) => self.word(word)?,
                Token::Other(b'(') => self.depth += 1,
                Token::Other(b')') => self.depth = self.depth.saturating_sub(1),
                Token::Other(b'$') if place.len() == 1 => {
                    self.text.push_str(&sql[self.copied..place.start]);
                    self.copied = self.parameter(sql, place.end, names)?;
                    // The number is a token of its own.
                    lexer.next();
                }
                Token::Quoted(_) | Token::Other(_) => {}
            }
            self.before = word;
        }
        self.text.push_str(sql.get(self.copied..self.end.unwrap_or(sql.len()))?);
        self.verb.then_some(self.text)
    }

    fn word(&mut self, word: &'a str) -> Option<()> {
        // The function's language takes any other INTO for its own.
        if is(word, &["into"]) && !is(self.before, &["insert", "merge"]) {
            return None;
        }
        if self.depth > 0 {
            return Some(());
        }
        if self.verb {
            return (!is(word, &["returning"])).then_some(());
        }
        self.verb = is(word, &["insert", "update", "delete", "merge"]);
        self.with |= is(word, &["with"]);
        (self.verb || self.with).then_some(())
    }

    /// Writes the name of the value whose number begins at `from`; answers where the number ends.
    fn parameter(&mut self, sql: &str, from: usize, names: &[String]) -> Option<usize> {
        let digits = sql[from..].bytes().take_while(u8::is_ascii_digit).count();
        let end = from + digits;
        let number: usize = sql[from..end].parse().ok()?;
        let name = names.get(number.checked_sub(1)?)?;
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        if sql[end..].starts_with(goes_on) {
            return None;
        }
        let _ = write!(self.text, " {name} ");
        Some(end)
    }
}

fn is(word: &str, words: &[&str]) -> bool {
    words.iter().any(|w| w.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use sqlx::SqlSafeStr as _;

    use super::*;

    fn text(sql: &'static str, types: &[u32]) -> StatementText {
        StatementText { sql: sql.into_sql_str(), types: types.to_vec() }
    }

    #[test]
    fn parameters_become_variables_wherever_they_are() {
        let table = [
            (
                "UPDATE a SET b=$2 WHERE c=$1::int",
                "UPDATE a SET b= inbox_s25_1  WHERE c= inbox_s20_1 ::int",
            ),
            ("UPDATE a SET b=$1,c=$1 -- $2", "UPDATE a SET b= inbox_s20_1 ,c= inbox_s20_1  -- $2"),
            (
                "INSERT INTO a VALUES ($1,'$2',$$ $2 $$,E'\\'$2') ;",
                "INSERT INTO a VALUES ( inbox_s20_1 ,'$2',$$ $2 $$,E'\\'$2') ",
            ),
            (
                "WITH g AS (DELETE FROM a RETURNING b) INSERT INTO c SELECT b FROM g",
                "WITH g AS (DELETE FROM a RETURNING b) INSERT INTO c SELECT b FROM g",
            ),
            (
                "/* x */ delete from a where b = $2;;",
                "/* x */ delete from a where b =  inbox_s25_1 ",
            ),
        ];
        for (sql, expected) in table {
            let step = step(&text(sql, &[20, 25])).expect(sql);
            assert!(
                step.ends_with(&format!("inbox_n25 := inbox_n25 + 1;\n{expected}\n;\n")),
                "{step}"
            );
        }
    }

    #[test]
    fn values_of_one_type_are_numbered_among_themselves() {
        let step = step(&text("INSERT INTO a VALUES ($1, $2, $3)", &[25, 20, 25])).unwrap();
        assert!(step.starts_with(
            "inbox_s25_1 := inbox_v25[inbox_n25 + 1];\ninbox_s20_1 := inbox_v20[inbox_n20 + 1];\n\
             inbox_s25_2 := inbox_v25[inbox_n25 + 2];\n"
        ));
        assert!(step.contains("( inbox_s25_1 ,  inbox_s20_1 ,  inbox_s25_2 )"), "{step}");
    }

    #[test]
    fn what_is_no_step_is_known_before() {
        for sql in [
            "",
            ";",
            "SELECT f($1)",
            "(DELETE FROM a)",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "UPDATE a SET b = $1 RETURNING b",
            "UPDATE a SET b = $1; UPDATE a SET b = 2",
            "UPDATE a SET b = $2",
            "UPDATE a SET b = $0",
            "UPDATE a SET b = $1a",
            "UPDATE a SET b = $18446744073709551616",
            "WITH x AS (SELECT 1 INTO y) DELETE FROM a",
            "CALL p($1)",
            "DO $$ BEGIN END $$",
            "UPDATE a SET b = '\0'",
        ] {
            assert!(!fits(&text(sql, &[20])), "{sql}");
        }
        assert!(!fits(&text("UPDATE a SET b = $1", &[1016])), "an array cannot be in one");
    }
}
