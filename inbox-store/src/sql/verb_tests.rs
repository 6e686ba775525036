//! What the verb scanner refuses, and what it lets through (A3).

use service_kit::Random;

use super::{
    lexer::{Dialect, Dialect::Postgres, Dialect::Sqlite, Lexer},
    names, verbs,
};

fn words(sql: &str, dialect: Dialect) -> Option<String> {
    let look = verbs::check(sql, dialect, |verb| verb.eq_ignore_ascii_case("truncate"));
    look.refused.map(|refused| refused.words)
}

fn stays(sql: &str, dialect: Dialect) -> bool {
    verbs::check(sql, dialect, |_| false).stays
}

#[track_caller]
fn refuses(dialects: &[Dialect], cases: &[(&str, &str)]) {
    for &dialect in dialects {
        for (sql, expected) in cases {
            assert_eq!(words(sql, dialect).as_deref(), Some(*expected), "{dialect:?}: {sql:?}");
        }
    }
}

#[track_caller]
fn admits(dialects: &[Dialect], cases: &[&str]) {
    for &dialect in dialects {
        for sql in cases {
            assert_eq!(words(sql, dialect), None, "{dialect:?}: {sql:?}");
        }
    }
}

const BOTH: [Dialect; 2] = [Postgres, Sqlite];

/// The last backslash of a string that does not end takes nothing with it.
#[test]
fn a_token_ends_where_its_text_ends() {
    for sql in [r"E'\", r"select e'a\", r"E'\\"] {
        let mut lexer = Lexer::new(sql, Postgres);
        while lexer.next().is_some() {}
        assert_eq!(lexer.place().end, sql.len(), "{sql}");
    }
}

/// A3
#[test]
fn every_transaction_verb_is_refused() {
    refuses(
        &BOTH,
        &[
            ("BEGIN", "BEGIN"),
            ("begin immediate", "BEGIN"),
            ("START TRANSACTION READ WRITE", "START"),
            ("Commit", "COMMIT"),
            ("COMMIT PREPARED 'x'", "COMMIT"),
            ("end", "END"),
            ("ROLLBACK", "ROLLBACK"),
            ("rollback to savepoint a", "ROLLBACK"),
            ("ABORT", "ABORT"),
            ("SAVEPOINT a", "SAVEPOINT"),
            ("RELEASE a", "RELEASE"),
            ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"),
            ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET TRANSACTION"),
            ("SET LOCAL transaction_read_only = on", "SET LOCAL TRANSACTION_READ_ONLY"),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
                "SET SESSION CHARACTERISTICS",
            ),
            ("SET synchronous_commit = off", "SET SYNCHRONOUS_COMMIT"),
            ("set local synchronous_commit to off", "SET LOCAL SYNCHRONOUS_COMMIT"),
            ("set session \"synchronous_commit\" = off", "SET SESSION SYNCHRONOUS_COMMIT"),
            ("SET default_transaction_read_only = off", "SET DEFAULT_TRANSACTION_READ_ONLY"),
            ("RESET synchronous_commit", "RESET SYNCHRONOUS_COMMIT"),
            ("RESET ALL", "RESET ALL"),
            ("SET LOCAL search_path = x", "SET LOCAL SEARCH_PATH"),
            ("SET ROLE x", "SET ROLE"),
            ("SET SESSION AUTHORIZATION x", "SET SESSION AUTHORIZATION"),
            ("truncate accounts", "TRUNCATE"),
        ],
    );
}

/// A3
#[test]
fn verbs_are_found_behind_spaces_comments_and_parentheses() {
    refuses(
        &BOTH,
        &[
            (" \t\r\n\x0C commit", "COMMIT"),
            ("-- a comment\ncommit", "COMMIT"),
            ("-- one\n--two\n/* three */ -- four\n commit", "COMMIT"),
            ("/* a ; b */commit/* c */", "COMMIT"),
            ("/* it's */ commit", "COMMIT"),
            ("((commit))", "COMMIT"),
            ("( /* x */ ( commit", "COMMIT"),
            (";;commit;", "COMMIT"),
            ("commit--", "COMMIT"),
            ("commit;", "COMMIT"),
        ],
    );
    refuses(
        &[Postgres],
        &[
            ("/* a /* nested */ b */ commit", "COMMIT"),
            ("-- ends at the return\rcommit", "COMMIT"),
            ("\x0Bcommit", "COMMIT"),
        ],
    );
    refuses(
        &[Sqlite],
        &[("/* does not /* nest */ commit", "COMMIT"), ("\u{feff}commit", "COMMIT")],
    );
    admits(&[Postgres], &["/* a /* nested */ commit */ select 1", "-- x\n"]);
    admits(&[Sqlite], &["-- goes on at the return\rcommit", "/* open commit"]);
}

/// A3
#[test]
fn verbs_are_found_in_texts_of_several_statements() {
    refuses(
        &BOTH,
        &[
            ("select 1; commit", "COMMIT"),
            ("select 1;select 2 ; -- x\n ROLLBACK ; select 3;", "ROLLBACK"),
            ("set local x = 1; commit", "COMMIT"),
            ("create table t; commit", "COMMIT"),
            ("insert into t values ('a;b'); end", "END"),
            ("insert into t values ('it''s'); commit", "COMMIT"),
            ("select \"a;\"\"b\"; commit", "COMMIT"),
            ("set local x = 1; set local synchronous_commit = off", "SET LOCAL SYNCHRONOUS_COMMIT"),
        ],
    );
    refuses(
        &[Postgres],
        &[
            ("select $$a;b$$; commit", "COMMIT"),
            ("select $tag$ $$ ; $other$ $tag$; commit", "COMMIT"),
            ("select $1; commit", "COMMIT"),
            ("select a$b$ from t; commit", "COMMIT"),
            (r"select E'\'; commit' ; rollback", "ROLLBACK"),
            ("select E'a'\n'\\'; x' ; commit", "COMMIT"),
            (r"select '\'; commit; --'", "COMMIT"),
            ("do $$ begin perform 1; end $$; commit", "COMMIT"),
        ],
    );
    refuses(
        &[Sqlite],
        &[
            ("select [a;'b]; commit", "COMMIT"),
            ("select `a;'b`; commit", "COMMIT"),
            ("select $$; commit", "COMMIT"),
        ],
    );
}

#[test]
fn what_only_looks_like_a_verb_is_admitted() {
    admits(
        &BOTH,
        &[
            "",
            ";",
            "select 1",
            "select 'x; commit'",
            "select \"x; commit\"",
            "select 1; -- commit\n",
            "select 1 /* ; commit */;",
            "insert into commit values (1)",
            "update t set begin = 1;",
            "commit_log",
            "\"commit\"",
            "SET LOCAL statement_timeout = 5; SET CONSTRAINTS ALL DEFERRED",
            "PRAGMA table_info(t)",
            "with x as (select 1) select * from x;",
            "savepoints",
            "'open; commit",
        ],
    );
    admits(
        &[Postgres],
        &[
            "do $$ begin commit; end $$",
            "do $do$ begin commit; end $do$ language plpgsql",
            r"select E'\'; commit; --'",
            "select $$; commit",
            "select a[1]",
        ],
    );
}

#[test]
fn what_stays_on_the_session_is_refused() {
    refuses(
        &[Postgres],
        &[
            ("SET timezone = 'UTC'", "SET TIMEZONE"),
            ("set time zone 'UTC'", "SET TIME"),
            ("select 1; SET my.tenant = '7'", "SET MY"),
            ("SET LOCAL session_replication_role = replica", "SET LOCAL SESSION_REPLICATION_ROLE"),
            ("RESET my.search_path", "RESET MY"),
            ("LISTEN news", "LISTEN"),
            ("UNLISTEN *", "UNLISTEN"),
            ("PREPARE plan AS SELECT 1", "PREPARE"),
            ("DEALLOCATE ALL", "DEALLOCATE"),
            ("DISCARD TEMP", "DISCARD"),
            ("LOAD 'auto_explain'", "LOAD"),
            ("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1", "DECLARE … WITH HOLD"),
            ("COPY t (a, b) FROM STDIN WITH (FORMAT csv)", "COPY FROM STDIN"),
            ("COPY (SELECT 1) TO STDOUT", "COPY TO STDOUT"),
        ],
    );
    admits(
        &[Postgres],
        &[
            "SET LOCAL timezone = 'UTC'",
            "SET CONSTRAINTS ALL IMMEDIATE",
            "DECLARE c CURSOR FOR SELECT 1",
            "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1",
            "COPY t FROM '/tmp/rows'",
            "SELECT 'with hold', 'from stdin'",
        ],
    );
}

#[test]
fn what_may_stay_on_the_session_is_noticed() {
    for sql in [
        "SELECT set_config('a.b', 'c', false)",
        "select pg_catalog.SET_CONFIG ('a.b', $1, $2)",
        "SELECT set_config('a', 'b', true), set_config('a', 'b', 1 > 2)",
        "SELECT f('set_config(''a'', ''b'', true)')",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock_shared($1, $2)",
        "DO $$ BEGIN END $$",
        "SELECT 1; CREATE TEMP TABLE t (n int)",
        "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1",
        "CREATE TABLE pg_temp.t (n int)",
    ] {
        assert!(stays(sql, Postgres), "{sql}");
    }
    for sql in [
        "SELECT set_config('a.b', coalesce($1, ''), true)",
        "SELECT pg_advisory_xact_lock(1), reset_configuration(1), advisory FROM t_lock",
        "CREATE TEMP TABLE t ON COMMIT DROP AS SELECT 1",
        "INSERT INTO temp VALUES (1)",
    ] {
        assert!(!stays(sql, Postgres), "{sql}");
    }
    assert!(stays("CREATE TEMP TABLE t (n)", Sqlite) && !stays("SELECT set_config(1)", Sqlite));
}

#[test]
fn changes_of_the_inbox_s_tables_are_refused() {
    let of = |table: &str| format!("a statement that changes {table}");
    for (sql, table) in [
        ("DELETE FROM inbox_events", "inbox_events"),
        ("delete from only public.Inbox_Events e using t", "inbox_events"),
        ("WITH d AS (DELETE FROM \"inbox_parked\" RETURNING 1) SELECT 1", "inbox_parked"),
        ("UPDATE inbox_lanes SET epoch = 1", "inbox_lanes"),
        ("INSERT INTO inbox_audit SELECT 1", "inbox_audit"),
        ("DROP TABLE IF EXISTS a, b.inbox_consumers", "inbox_consumers"),
        ("ALTER TABLE inbox_partitions ADD x int", "inbox_partitions"),
    ] {
        assert_eq!(words(sql, Postgres), Some(of(table)), "{sql}");
        assert_eq!(words(sql, Sqlite), Some(of(table)), "{sql}");
    }
    refuses(&[Sqlite], &[("UPDATE OR IGNORE inbox_events SET parked = 1", &of("inbox_events"))]);
    admits(
        &BOTH,
        &[
            "SELECT * FROM inbox_events JOIN inbox_lanes USING (partition_ref) FOR UPDATE",
            "INSERT INTO inbox_notes SELECT 1 FROM inbox_events",
            "DELETE FROM my_inbox_events",
            "DELETE FROM notes USING inbox_events WHERE true",
            "UPDATE notes SET inbox_events = 1",
            "INSERT INTO notes (a, inbox_parked) VALUES ('DELETE FROM inbox_events', 1)",
        ],
    );
}

/// A table that a migration makes is the inbox's.
#[test]
fn the_tables_are_those_of_the_migrations() {
    let made = [
        include_str!("../../migrations/postgres/0001_inbox.sql"),
        include_str!("../../migrations/postgres/0002_release.sql"),
        include_str!("../../migrations/postgres/0003_history.sql"),
        include_str!("../../migrations/postgres/0004_content.sql"),
        include_str!("../../migrations/postgres/0005_versions.sql"),
        include_str!("../../migrations/postgres/0006_start.sql"),
        include_str!("../../migrations/postgres/0007_slots.sql"),
        include_str!("../../migrations/postgres/0008_recent.sql"),
        include_str!("../../migrations/sqlite/0001_inbox.sql"),
        include_str!("../../migrations/sqlite/0002_release.sql"),
        include_str!("../../migrations/sqlite/0003_history.sql"),
        include_str!("../../migrations/sqlite/0004_content.sql"),
        include_str!("../../migrations/sqlite/0005_versions.sql"),
        include_str!("../../migrations/sqlite/0006_start.sql"),
        include_str!("../../migrations/sqlite/0007_slots.sql"),
        include_str!("../../migrations/sqlite/0008_recent.sql"),
    ]
    .concat();
    let made = made.split("CREATE TABLE ").skip(1);
    let mut made: Vec<&str> = made.filter_map(|text| text.split(' ').next()).collect();
    made.sort_unstable();
    made.dedup();
    assert_eq!(made, names::TABLES);
}

#[test]
fn a_routine_s_body_is_one_statement() {
    let trigger = "CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET n = CASE WHEN n > 1 \
                   THEN 1 ELSE 2 END; DELETE FROM c; END";
    admits(&[Sqlite], &[trigger]);
    refuses(&[Sqlite], &[(&format!("{trigger}; COMMIT"), "COMMIT")]);
    let function = "CREATE OR REPLACE FUNCTION f(begin int) RETURNS int BEGIN ATOMIC SELECT CASE \
                    WHEN 1 > 0 THEN 1 END; SELECT 2; END";
    admits(&[Postgres], &[function]);
    refuses(
        &[Postgres],
        &[
            (&format!("{function}; COMMIT"), "COMMIT"),
            ("create function f(begin int) returns int as 'select 1'; commit", "COMMIT"),
            ("create table function (begin int); commit", "COMMIT"),
        ],
    );
}

/// No text makes the scanner panic or stand still, and in any text a verb on its own at the end,
/// behind everything that may be open, is seen or was quoted.
#[test]
fn any_text_is_scanned_to_its_end() {
    let pieces = [
        "'",
        "\"",
        "$$",
        "$a$",
        "/*",
        "*/",
        "--",
        "\n",
        ";",
        "[",
        "]",
        "`",
        "E'",
        "\\",
        "é",
        "$1",
        "commit",
        "create trigger",
        "begin",
        "end",
        " ",
        "(",
        ".",
        "\u{feff}",
        "1e5",
    ];
    let mut random = Random::new(7);
    for _ in 0..20_000 {
        let mut sql = String::new();
        for _ in 0..12 {
            let pick = random.below(pieces.len() as u64);
            sql.push_str(pieces[usize::try_from(pick).unwrap()]);
        }
        for dialect in BOTH {
            let _ = words(&sql, dialect);
            assert!(Lexer::new(&sql, dialect).count() <= sql.len());
        }
    }
}
