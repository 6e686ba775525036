//! Declared handlers on SQLite in memory, and what is refused before anything runs.

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use sqlx::{Connection, Sqlite, SqliteConnection};

use super::{
    super::{CallFailure, DecodedRun, RouteTable, Routes, RunEnd},
    Declared,
    DeclaredMode::{self, Each, Run},
    deliveries::{declared, delivery, run, table},
};
use crate::{Event, Fault, Handler, HandlerResult, Tx};

const SCHEMA: &str =
    "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER CHECK (balance < 1000));
    INSERT INTO accounts VALUES ('x', 0), ('y', 0);
    CREATE TABLE seen (ord, event_id, aggregate_id, occurred_at, a, b, c, d, e, f, g, h, i, j, k)";

const CREDIT: &str =
    "UPDATE accounts SET balance = balance + e.amount FROM events e WHERE id = e.account";
const COLUMNS: &[(&str, &str)] = &[("account", "text"), ("amount", "int8 from /m/amount")];

async fn database() -> SqliteConnection {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    sqlx::raw_sql(SCHEMA).execute(&mut conn).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
    conn
}

fn credit(mode: DeclaredMode) -> RouteTable<Sqlite> {
    table(declared(mode, COLUMNS, CREDIT))
}

async fn balance(conn: &mut SqliteConnection, id: &str) -> i64 {
    let sql = "SELECT balance FROM accounts WHERE id = ?";
    sqlx::query_scalar(sql).bind(id).fetch_one(conn).await.unwrap()
}

fn paid(account: &str, amount: i64) -> String {
    format!(r#"{{"account": "{account}", "m": {{"amount": {amount}}}}}"#)
}

#[tokio::test]
async fn each_event_has_its_effect() {
    let mut conn = database().await;
    let (a, b, c) = (paid("x", 5), paid("x", 10), paid("y", 1));
    assert_eq!(run(&credit(Each), &mut conn, &[&a, &b, &c]).await, RunEnd::Done);
    assert_eq!((balance(&mut conn, "x").await, balance(&mut conn, "y").await), (15, 1));
}

/// Finding 7: `UPDATE … FROM` with two rows for one target applies one of them.
#[tokio::test]
async fn a_run_is_one_statement() {
    let mut conn = database().await;
    let (a, b, c) = (paid("x", 5), paid("x", 10), paid("y", 1));
    assert_eq!(run(&credit(Run), &mut conn, &[&a, &b, &c]).await, RunEnd::Done);
    assert_ne!(balance(&mut conn, "x").await, 15, "SQLite has learned to apply both");
    let summed = "UPDATE accounts SET balance = balance + s.amount
        FROM (SELECT account, sum(amount) AS amount FROM events GROUP BY account) s WHERE id = s.account";
    let mut conn = database().await;
    let table = table::<Sqlite>(declared(Run, COLUMNS, summed));
    assert_eq!(run(&table, &mut conn, &[&a, &b, &c]).await, RunEnd::Done);
    assert_eq!((balance(&mut conn, "x").await, balance(&mut conn, "y").await), (15, 1));
}

#[tokio::test]
async fn every_type_arrives() {
    let columns = [
        ("a", "bool"),
        ("b", "bytea"),
        ("c", "date"),
        ("d", "float8"),
        ("e", "int4"),
        ("f", "jsonb from payload"),
        ("g", "numeric"),
        ("h", "timestamptz"),
        ("i", "uuid"),
        ("j", "text from header:tenant"),
        ("k", "text? from /nowhere"),
    ];
    let insert = "INSERT INTO seen SELECT ord, event_id, aggregate_id, occurred_at, a, b, c, d, e, f, g, h, i, j, k FROM events";
    let payload = r#"{"a":true,"b":"AKs=","c":"2026-01-31","d":0.1,"e":-7,"g":12.30,"h":"2026-01-31T09:30:00+01:00","i":"0198C5A0-7B5E-7C3D-8000-000000000001"}"#;
    for mode in [Each, Run] {
        let mut conn = database().await;
        let table = table::<Sqlite>(declared(mode, &columns, insert));
        assert_eq!(run(&table, &mut conn, &[payload]).await, RunEnd::Done);
        let sql = "SELECT json_array(ord, length(event_id), aggregate_id, occurred_at, a, hex(b), c, d, e, f, g, h, i, j, k)
            || typeof(b) || typeof(d) || typeof(e) FROM seen";
        let seen: String = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
        let escaped = payload.replace('"', "\\\"");
        let expected = format!(
            r#"[1,36,"a","2026-01-31T08:30:00.250000Z",1,"00AB","2026-01-31",0.1,-7,"{escaped}","12.30","2026-01-31T08:30:00.000000Z","0198c5a0-7b5e-7c3d-8000-000000000001","north",null]blobrealinteger"#
        );
        assert_eq!(seen, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_stops_the_run_before_its_event() {
    let (good, deadline_text) = (paid("x", 5), paid("y", 1));
    let bad = r#"{"account": "x", "m": {"amount": "s3cret"}}"#;
    let mut conn = database().await;
    let end = run(&credit(Each), &mut conn, &[&good, bad, &deadline_text]).await;
    let RunEnd::Undecodable { at: 1, ran: 1, error } = end else { panic!("{end:?}") };
    let expected = "column `amount`: expected int8 (a 64-bit integer) in the payload at \
                    `/m/amount`, found text; fix its producer, or the column's type";
    assert_eq!(error, expected);
    assert_eq!(balance(&mut conn, "x").await, 5, "the events before it have run");
    let mut conn = database().await;
    let end = run(&credit(Run), &mut conn, &[&good, bad, &deadline_text]).await;
    assert_eq!(end, RunEnd::Undecodable { at: 1, ran: 0, error: expected.to_owned() });
    assert_eq!(balance(&mut conn, "x").await, 0);
    let end = run(&credit(Each), &mut conn, &["{\"account\": s3cret"]).await;
    let RunEnd::Undecodable { at: 0, ran: 0, error } = end else { panic!("{end:?}") };
    assert!(error.starts_with("the payload is not JSON: ") && !error.contains("s3cret"), "{error}");
    let marked = format!("\u{feff}{good}");
    let end = run(&credit(Each), &mut conn, &[&marked]).await;
    let RunEnd::Undecodable { error, .. } = end else { panic!("{end:?}") };
    assert!(error.contains("it begins with a byte order mark"), "{error}");
}

#[tokio::test]
async fn a_tombstone_has_no_values() {
    let mut conn = database().await;
    let table = credit(Each);
    let tombstone = delivery("a", None);
    let event = [super::super::RunEvent { delivery: &tombstone, attempt: 1 }];
    let deadline = std::time::Duration::from_secs(5);
    let end = table.run(0, &event, DecodedRun::none(), &mut Tx::new(&mut conn, 0), deadline).await;
    let RunEnd::Undecodable { error, .. } = end else { panic!("{end:?}") };
    assert!(
        error.contains("column `account`") && error.contains("found nothing or null"),
        "{error}"
    );
}

#[tokio::test]
async fn a_failing_event_is_named() {
    let mut conn = database().await;
    let (good, bad) = (paid("x", 5), paid("x", 5000));
    let end = run(&credit(Each), &mut conn, &[&good, &bad, &good]).await;
    let RunEnd::Failed(CallFailure { at: Some(1), fault: Fault::Retry, error, hung: false }) = end
    else {
        panic!("{end:?}")
    };
    assert!(error.contains("CHECK constraint failed"), "{error}");
}

/// What is wrong with handlers, before a database is asked.
#[test]
fn wrong_handlers_are_refused_in_sentences() {
    let each = |columns: &[(&str, &str)], sql: &str| declared(Each, columns, sql);
    let table: Vec<(Declared, &str)> = vec![
        (
            each(&[("a", "int64")], "DELETE FROM t"),
            "the declared handler for `t`: column `a` has the unknown type `int64`; did you mean `int8`?",
        ),
        (
            each(&[("a", "text"), ("A", "text")], "DELETE FROM t"),
            "the declared handler for `t`: column `A` has a name that needs quotes",
        ),
        (
            each(&[], "DROP TABLE t"),
            "the declared handler for `t`: its statement begins with DROP; a declared handler inserts, updates",
        ),
        (
            each(&[], "DELETE FROM t; DELETE FROM u"),
            "the declared handler for `t`: its statement holds several statements",
        ),
        (
            each(&[], "DELETE FROM t WHERE a = ?1"),
            "the declared handler for `t`: its statement has a parameter",
        ),
        (each(&[], "COMMIT"), "the declared handler for `t`: its statement begins with COMMIT"),
        (
            Declared { one_per_aggregate: Some(true), ..each(&[], "DELETE FROM t") },
            "the declared handler for `t` has `one_per_aggregate`, which is for runs, and the mode each",
        ),
        (
            Declared { event_type: String::new(), ..each(&[], "DELETE FROM t") },
            "the handler `[[handlers]] of the configuration` is registered for an event type without a name",
        ),
    ];
    for (handler, expected) in table {
        let refused = Routes::<Sqlite>::default().declare(&[handler], None).freeze().unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
    }
}

struct InRust;

impl Handler<Sqlite> for InRust {
    type Event = i64;

    async fn handle(&self, _: &Event<i64>, _: &mut Tx<'_, Sqlite>) -> HandlerResult {
        Ok(())
    }
}

#[test]
fn two_routes_for_a_type_are_refused_wherever_they_come_from() {
    let handler = || declared(Each, &[], "DELETE FROM t");
    let refused = Routes::<Sqlite>::default().declare(&[handler(), handler()], None).freeze();
    let expected = "events of type `t` are registered twice, with the handler `[[handlers]] of the configuration` \
        and with the handler `[[handlers]] of the configuration`: remove one of them";
    assert_eq!(refused.unwrap_err(), expected);
    let refused =
        Routes::default().on("t", InRust).declare(&[handler()], None).freeze().unwrap_err();
    assert!(refused.contains("InRust` and with the handler `[[handlers]] of the"), "{refused}");
}

#[test]
fn a_run_has_each_aggregate_once_unless_it_says_otherwise() {
    for (said, expected) in [(None, true), (Some(true), true), (Some(false), false)] {
        let run = declared(Run, &[], "DELETE FROM t");
        let table = table::<Sqlite>(Declared { one_per_aggregate: said, ..run });
        let super::super::RouteLookup::Route(kind) = table.lookup("t") else { panic!("{table:?}") };
        assert_eq!((kind.whole_run, kind.one_per_aggregate), (true, expected), "{said:?}");
    }
}

#[tokio::test]
async fn the_database_looks_at_a_statement_before_the_start() {
    let mut conn = database().await;
    assert_eq!(credit(Each).refused_statements(&mut conn).await.unwrap(), Vec::<String>::new());
    for (sql, expected) in [
        ("UPDATE nowhere SET a = 1", "no such table: nowhere"),
        ("UPDATE accounts SET balance = e.amuont FROM events e", "no such column: e.amuont"),
        ("UPDATE accounts SET balance == 1 1", "syntax error"),
        ("UPDATE accounts SET balance = 1 /* ", "syntax error"),
    ] {
        let table = table::<Sqlite>(declared(Each, COLUMNS, sql));
        let wrong = table.refused_statements(&mut conn).await.unwrap();
        let [wrong] = &wrong[..] else { panic!("{sql}: {wrong:?}") };
        let begins = "the declared handler for `t`: the database refused its statement: ";
        assert!(wrong.starts_with(begins) && wrong.contains(expected), "{wrong}");
    }
}

#[test]
fn what_to_do_about_a_type_is_said_where_its_handlers_are() {
    let stock =
        || Routes::<Sqlite>::default().declare(&[declared(Each, &[], "DELETE FROM t")], None);
    let remedy = |routes: Routes<Sqlite>| routes.freeze().unwrap().remedy();
    assert_eq!(remedy(stock()), "declare one in `[[handlers]]`, or set `events.unknown_type`");
    for in_code in [stock().on("u", InRust), stock().ignore("u")] {
        assert!(remedy(in_code).contains("`routes.ignore(..)`"));
    }
}
