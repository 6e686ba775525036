//! Declared handlers on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by `cargo xtask test`).

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use inbox_store::internal::{
    PgSettings,
    port::{Address, Sessions},
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres};

use super::{
    super::{CallFailure, RouteTable, RunEnd},
    DeclaredMode::{self, Each, Run},
    deliveries::{declared, run, table},
};
use crate::Fault;

const SCHEMA: &str =
    "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint CHECK (balance < 1000));
    INSERT INTO accounts VALUES ('x', 0), ('y', 0);
    CREATE TABLE log (at bigint GENERATED ALWAYS AS IDENTITY, id text, balance bigint);
    CREATE FUNCTION credit(text, bigint) RETURNS void LANGUAGE sql AS
        'UPDATE accounts SET balance = balance + $2 WHERE id = $1'";

const CREDIT: &str =
    "UPDATE accounts SET balance = balance + e.amount FROM events e WHERE accounts.id = e.account";
const COLUMNS: &[(&str, &str)] = &[("account", "text"), ("amount", "int8 from /m/amount")];

fn server() -> String {
    std::env::var("INBOX_TEST_POSTGRES")
        .expect("INBOX_TEST_POSTGRES names no server; run the tests with `cargo xtask test`")
}

/// A schema of its own, which goes with the test.
struct Place {
    schema: String,
    settings: PgSettings,
}

impl Place {
    async fn new() -> Self {
        let schema = format!("declared_{}", uuid::Uuid::now_v7().simple());
        let address = Address {
            url: &server(),
            tls: None,
            schema: Some(&schema),
            application: "test",
            statement_cache: 10,
        };
        let settings = Postgres::settings(&address).unwrap();
        let place = Self { schema, settings };
        place
            .run(&format!("CREATE SCHEMA {0}; SET search_path = {0}; {SCHEMA}", place.schema))
            .await;
        place
    }

    async fn run(&self, sql: &str) {
        let mut conn = PgConnection::connect(&server()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
    }

    /// A session that has what the handlers of the table need, inside a transaction.
    async fn begin(&self, table: &RouteTable<Postgres>) -> PgConnection {
        let mut first = Postgres::open(&self.settings).await.unwrap();
        let (settings, doubt) = table.equip(&mut first, self.settings.clone()).await;
        assert_eq!(doubt, None);
        self.begin_with(&settings).await
    }

    /// The same without: a round trip for each event.
    async fn begin_plain(&self) -> PgConnection {
        self.begin_with(&self.settings).await
    }

    async fn begin_with(&self, settings: &PgSettings) -> PgConnection {
        let mut conn = Postgres::open(settings).await.unwrap();
        sqlx::raw_sql("BEGIN READ WRITE").execute(&mut conn).await.unwrap();
        conn
    }

    async fn gone(self) {
        self.run(&format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }
}

async fn text(conn: &mut PgConnection, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(conn).await.unwrap()
}

async fn balances(conn: &mut PgConnection) -> String {
    text(conn, "SELECT string_agg(id || balance, ' ' ORDER BY id) FROM accounts").await
}

fn paid(account: &str, amount: i64) -> String {
    format!(r#"{{"account": "{account}", "m": {{"amount": {amount}}}}}"#)
}

fn credit(mode: DeclaredMode) -> RouteTable<Postgres> {
    table(declared(mode, COLUMNS, CREDIT))
}

async fn functions(conn: &mut PgConnection) -> String {
    text(conn, "SELECT count(*)::text FROM pg_proc WHERE pronamespace = pg_my_temp_schema()").await
}

/// By the loop and without it; more events than go into the first call.
#[tokio::test]
async fn each_event_has_its_effect() {
    let place = Place::new().await;
    let paid: Vec<String> = (0..100).map(|n| paid(["x", "y"][n % 2], 1)).collect();
    let paid: Vec<&str> = paid.iter().map(String::as_str).collect();
    for looped in [true, false] {
        let table = credit(Each);
        let mut conn = if looped { place.begin(&table).await } else { place.begin_plain().await };
        assert_eq!(run(&table, &mut conn, &paid).await, RunEnd::Done);
        assert_eq!(balances(&mut conn).await, "x50 y50", "looped: {looped}");
        assert_eq!(functions(&mut conn).await, if looped { "1" } else { "0" });
    }
    place.gone().await;
}

/// Every event sees what the one before it did.
#[tokio::test]
async fn events_see_each_others_effects() {
    let place = Place::new().await;
    let sql = "WITH RECURSIVE moved AS (UPDATE accounts a SET balance = balance * 2 + e.amount FROM events e
            WHERE a.id = e.account RETURNING a.id, a.balance)
        INSERT INTO log (id, balance) SELECT id, balance FROM moved; -- the end";
    let table = table::<Postgres>(declared(Each, COLUMNS, sql));
    let mut conn = place.begin(&table).await;
    let events = [paid("x", 1), paid("x", 2), paid("y", 7), paid("x", 3)];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    assert_eq!(run(&table, &mut conn, &events).await, RunEnd::Done);
    let log = text(&mut conn, "SELECT string_agg(id || balance, ' ' ORDER BY at) FROM log").await;
    assert_eq!(log, "x1 x4 y7 x11");
    drop(conn);
    place.gone().await;
}

/// Finding 7: `UPDATE … FROM` with two rows for one target applies one of them.
#[tokio::test]
async fn a_run_is_one_statement() {
    let place = Place::new().await;
    let events = [paid("x", 5), paid("x", 10), paid("y", 1)];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let mut conn = place.begin_plain().await;
    assert_eq!(run(&credit(Run), &mut conn, &events).await, RunEnd::Done);
    assert_ne!(balances(&mut conn).await, "x15 y1", "PostgreSQL has learned to apply both");
    let summed = "UPDATE accounts SET balance = balance + s.amount
        FROM (SELECT account, sum(amount) AS amount FROM events GROUP BY account) s WHERE id = s.account";
    let table = table::<Postgres>(declared(Run, COLUMNS, summed));
    drop(conn);
    let mut conn = place.begin_plain().await;
    assert_eq!(run(&table, &mut conn, &events).await, RunEnd::Done);
    assert_eq!(balances(&mut conn).await, "x15 y1");
    drop(conn);
    place.gone().await;
}

#[tokio::test]
async fn every_kind_of_statement_runs() {
    let place = Place::new().await;
    let table_of_kinds = [
        (CREDIT, "x3 y0"),
        ("SELECT credit(e.account, e.amount) FROM events e ORDER BY ord", "x3 y0"),
        ("DELETE FROM accounts USING events e WHERE id = e.account", "y0"),
        (
            "MERGE INTO accounts a USING events e ON a.id = e.account
             WHEN MATCHED THEN UPDATE SET balance = a.balance + e.amount
             WHEN NOT MATCHED THEN INSERT VALUES (e.account, e.amount)",
            "x3 y0",
        ),
        (
            "INSERT INTO accounts SELECT account, amount FROM events
             ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance",
            "x3 y0",
        ),
        (
            "INSERT INTO accounts SELECT 'z$inbox$', amount FROM events -- $_inbox$",
            "x0 y0 z$inbox$3",
        ),
    ];
    let event = paid("x", 3);
    for (sql, expected) in table_of_kinds {
        for mode in [Each, Run] {
            let table = table::<Postgres>(declared(mode, COLUMNS, sql));
            let mut conn = place.begin(&table).await;
            assert_eq!(run(&table, &mut conn, &[&event]).await, RunEnd::Done, "{sql}");
            assert_eq!(balances(&mut conn).await, expected, "{sql}");
        }
    }
    place.gone().await;
}

#[tokio::test]
async fn every_type_arrives() {
    let place = Place::new().await;
    let columns = [
        ("inbox_1", "bool from /a"),
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
        ("l", "bytea from key"),
        ("user", "int8 from /e"),
        ("inbox_at", "text from key"),
    ];
    let insert = r#"INSERT INTO seen SELECT ord, pg_typeof(event_id), aggregate_id, occurred_at, inbox_1, b, c, d, e, f,
        g, h, i, j, k, l, "user", inbox_at, pg_typeof(f), pg_typeof(g) FROM events"#;
    place.run(&format!("SET search_path = {}; CREATE TABLE seen (ord bigint, ty text, aggregate text, at timestamptz,
        a bool, b bytea, c date, d float8, e int, f jsonb, g numeric, h timestamptz, i uuid, j text, k text, l bytea,
        u bigint, m text, tf text, tg text)", place.schema)).await;
    let payload = r#"{"a":true,"b":"AKs=","c":"2026-01-31","d":0.1,"e":-7,"g":12.30,"h":"2026-01-31T09:30:00.000001+01:00","i":"0198C5A0-7B5E-7C3D-8000-000000000001"}"#;
    for mode in [Each, Run] {
        let table = table::<Postgres>(declared(mode, &columns, insert));
        let mut conn = place.begin(&table).await;
        sqlx::raw_sql("SET LOCAL timezone = 'UTC'").execute(&mut conn).await.unwrap();
        assert_eq!(run(&table, &mut conn, &[payload]).await, RunEnd::Done);
        let seen = text(&mut conn, "SELECT (to_jsonb(s) - 'f')::text FROM seen s").await;
        let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
        let expected = serde_json::json!({
            "ord": 1, "ty": "uuid", "aggregate": "a", "at": "2026-01-31T08:30:00.25+00:00", "a": true,
            "b": "\\x00ab", "c": "2026-01-31", "d": 0.1, "e": -7, "g": 12.30,
            "h": "2026-01-31T08:30:00.000001+00:00", "i": "0198c5a0-7b5e-7c3d-8000-000000000001",
            "j": "north", "k": null, "l": "\\x6b2d31", "u": -7, "m": "k-1", "tf": "jsonb", "tg": "numeric",
        });
        assert_eq!(seen, expected, "{mode:?}");
        assert_eq!(text(&mut conn, "SELECT g::text || (f ->> 'e') FROM seen").await, "12.30-7");
    }
    place.gone().await;
}

/// The loop cannot name the event; a call with one event can, and so can the careful run.
#[tokio::test]
async fn a_failing_event_fails_its_call() {
    let place = Place::new().await;
    let (good, bad) = (paid("x", 5), paid("x", 5000));
    let table = credit(Each);
    let mut conn = place.begin(&table).await;
    let end = run(&table, &mut conn, &[&good, &bad, &good]).await;
    let RunEnd::Failed(CallFailure { at: None, fault: Fault::Retry, error, hung: false }) = end
    else {
        panic!("{end:?}")
    };
    assert!(error.contains("check constraint") && error.contains("(code 23514)"), "{error}");
    drop(conn);
    let mut conn = place.begin(&table).await;
    let end = run(&table, &mut conn, &[&bad]).await;
    assert!(matches!(end, RunEnd::Failed(CallFailure { at: Some(0), .. })), "{end:?}");
    drop(conn);
    let mut conn = place.begin_plain().await;
    let end = run(&credit(Each), &mut conn, &[&good, &bad]).await;
    assert!(matches!(end, RunEnd::Failed(CallFailure { at: Some(1), .. })), "{end:?}");
    drop(conn);
    place.gone().await;
}

/// A value that does not fit parks its own event; those before it have run, in the loop as well.
#[tokio::test]
async fn a_value_that_does_not_fit_stops_the_run_before_its_event() {
    let place = Place::new().await;
    let good = paid("x", 5);
    let mut events: Vec<&str> = vec![&good; 40];
    events.insert(35, r#"{"account": "x", "m": {}}"#);
    let table = credit(Each);
    let mut conn = place.begin(&table).await;
    let end = run(&table, &mut conn, &events).await;
    let RunEnd::Undecodable { at: 35, ran: 35, error } = end else { panic!("{end:?}") };
    assert!(error.contains("in the payload at `/m/amount`, found nothing or null"), "{error}");
    assert_eq!(balances(&mut conn).await, "x175 y0");
    drop(conn);
    place.gone().await;
}

/// A statement that ends or changes the transaction is refused before the start.
#[tokio::test]
async fn the_database_looks_at_a_statement_before_the_start() {
    let place = Place::new().await;
    let mut conn = Postgres::open(&place.settings).await.unwrap();
    let wrong = [
        (
            "UPDATE nowhere SET a = 1",
            " at line 1, column 8 of it: relation \"nowhere\" does not exist",
        ),
        (
            "UPDATE accounts\n  SET balance = e.amuont\nFROM events e",
            " at line 2, column 17 of it: column e.amuont does not exist (Perhaps",
        ),
        (
            "-- ünïcödé\nWITH x AS (SELECT nothing) DELETE FROM accounts",
            " at line 2, column 19 of it: column \"nothing\" does not exist",
        ),
        (
            "UPDATE accounts SET balance = e.account FROM events e",
            " at line 1, column 31 of it: column \"balance\" is of type bigint but expression is of type text",
        ),
        ("UPDATE accounts SET balance = 1 /*", "unterminated"),
        ("UPDATE accounts SET balance = 1 WHERE", "syntax error at end of input"),
    ];
    for (sql, expected) in wrong {
        let table = table::<Postgres>(declared(Each, COLUMNS, sql));
        let wrong = table.refused_statements(&mut conn).await.unwrap();
        let [wrong] = &wrong[..] else { panic!("{sql}: {wrong:?}") };
        let begins = "the declared handler for `t`: the database refused its statement";
        assert!(wrong.starts_with(begins) && wrong.contains(expected), "{wrong}");
        assert!(wrong.ends_with("; correct the statement or the tables"), "{wrong}");
    }
    assert_eq!(credit(Each).refused_statements(&mut conn).await.unwrap(), Vec::<String>::new());
    place.gone().await;
}

/// Without the right to make temporary functions it goes on, more slowly, and says so.
#[tokio::test]
async fn where_no_function_can_be_made_each_event_takes_a_round_trip() {
    let place = Place::new().await;
    let database = format!("d{}", place.schema);
    place.run(&format!("CREATE DATABASE {database}")).await;
    place.run(&format!("REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC")).await;
    place.run(&format!("CREATE ROLE {database} LOGIN")).await;
    let url = server().replace("//postgres@", &format!("//{database}@"));
    let url = format!("{}/{database}", url.rsplit_once('/').unwrap().0);
    let table = credit(Each);
    let pooled = place.settings.clone().through_pooler();
    let mut conn = Postgres::open(&place.settings).await.unwrap();
    let (_, doubt) = table.equip(&mut conn, pooled).await;
    assert!(doubt.unwrap().contains("behind a pooler; use mode run"));
    let settings = PgSettings::new(&url).unwrap();
    drop(conn);
    let mut conn = Postgres::open(&settings).await.unwrap();
    let (settings, doubt) = table.equip(&mut conn, settings).await;
    let doubt = doubt.unwrap();
    assert!(doubt.starts_with("declared handlers with mode each need a round trip"), "{doubt}");
    assert!(doubt.contains("permission denied to create temporary tables"), "{doubt}");
    assert_eq!(functions(&mut Postgres::open(&settings).await.unwrap()).await, "0");
    place.run(&format!("DROP DATABASE {database} WITH (FORCE)")).await;
    place.run(&format!("DROP ROLE {database}")).await;
    let mut conn = place.begin_plain().await;
    let event = paid("x", 1);
    assert_eq!(run(&table, &mut conn, &[&event, &event]).await, RunEnd::Done);
    assert_eq!(balances(&mut conn).await, "x2 y0");
    drop(conn);
    place.gone().await;
}

/// `ON CONFLICT DO UPDATE` cannot touch a row twice: what `one_per_aggregate` is for, which is on unless it is
/// switched off.
#[tokio::test]
async fn a_run_that_touches_a_row_twice_fails_without_one_per_aggregate() {
    let place = Place::new().await;
    let sql = "INSERT INTO accounts SELECT account, amount FROM events
        ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance";
    let table = table::<Postgres>(declared(Run, COLUMNS, sql));
    let mut conn = place.begin_plain().await;
    let (first, second) = (paid("x", 1), paid("x", 2));
    let end = run(&table, &mut conn, &[&first, &second]).await;
    let RunEnd::Failed(CallFailure { error, .. }) = end else { panic!("{end:?}") };
    assert!(error.contains("cannot affect row a second time"), "{error}");
    drop(conn);
    let mut conn = place.begin_plain().await;
    for event in [&first, &second] {
        assert_eq!(run(&table, &mut conn, &[event]).await, RunEnd::Done);
    }
    assert_eq!(balances(&mut conn).await, "x3 y0");
    drop(conn);
    place.gone().await;
}
