//! Handlers on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by `cargo xtask test`).

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres};

use super::{CallFailure, DecodedRun, Routes, RunEnd, RunEvent, queue_services::make_delivery};
use crate::{Event, Fault, Handler, HandlerResult, Tx};

/// A schema of its own with the tables that tests use.
struct Place {
    schema: String,
}

impl Place {
    async fn new() -> Self {
        let place = Self { schema: format!("handler_{}", uuid::Uuid::now_v7().simple()) };
        let mut conn = place.connect_plain().await;
        let tables = format!(
            "CREATE SCHEMA {0}; SET search_path = {0};
             CREATE TABLE parents (id int PRIMARY KEY);
             CREATE TABLE effects (
                 n int UNIQUE CHECK (n > 0),
                 parent int REFERENCES parents
             );
             CREATE TABLE locks (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);
             INSERT INTO locks (id) VALUES (1), (2); INSERT INTO effects VALUES (1)",
            place.schema
        );
        run(&mut conn, &tables).await.unwrap();
        place
    }

    async fn connect_plain(&self) -> PgConnection {
        let url = std::env::var("INBOX_TEST_POSTGRES")
            .expect("INBOX_TEST_POSTGRES names no server; run the tests with `cargo xtask test`");
        PgConnection::connect(&url).await.unwrap()
    }

    async fn connect(&self) -> PgConnection {
        let mut conn = self.connect_plain().await;
        run(&mut conn, &format!("SET search_path = {}", self.schema)).await.unwrap();
        conn
    }

    /// A connection inside a transaction.
    async fn begin(&self, begin: &str) -> PgConnection {
        let mut conn = self.connect().await;
        run(&mut conn, begin).await.unwrap();
        conn
    }
}

async fn run(conn: &mut PgConnection, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.map(|_| ())
}

async fn run_on(tx: &mut Tx<'_, Postgres>, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *tx).await.map(|_| ())
}

/// Runs its payload as SQL and answers `Ok` whatever came of it.
struct Swallows;

impl Handler<Postgres> for Swallows {
    type Event = String;

    async fn handle(&self, event: &Event<String>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let _ = run_on(tx, &event.payload).await;
        Ok(())
    }
}

/// Runs a handler that swallows on `sql`; answers the fault and the error.
async fn swallow(conn: &mut PgConnection, sql: &str) -> (Fault, String) {
    call(conn, Swallows, sql).await
}

async fn call<H: Handler<Postgres>>(
    conn: &mut PgConnection,
    handler: H,
    sql: &str,
) -> (Fault, String) {
    let table = Routes::default().on("sql", handler).freeze().unwrap();
    let delivery = make_delivery("sql", serde_json::to_vec(sql).unwrap().into());
    let run = [RunEvent { delivery: &delivery, attempt: 1 }];
    let mut tx = Tx::new(conn, 0);
    match table.run(0, &run, DecodedRun::none(), &mut tx, Duration::from_secs(20)).await {
        RunEnd::Failed(CallFailure { at: Some(0), fault, error, hung: false }) => (fault, error),
        end => panic!("{sql}: {end:?}"),
    }
}

#[track_caller]
fn says(told: &(Fault, String), fault: Fault, code: &str) {
    assert_eq!(told.0, fault, "{}", told.1);
    assert!(told.1.starts_with("the handler swallowed"), "{}", told.1);
    assert!(told.1.contains(&format!("(code {code})")), "{} is not {code}", told.1);
}

/// A2
#[tokio::test]
async fn a_swallowed_statement_error_is_the_handler_s_failure() {
    let place = Place::new().await;
    for (code, sql) in [
        ("22012", "SELECT 1 / 0"),
        ("23505", "INSERT INTO effects VALUES (1)"),
        ("23503", "INSERT INTO effects VALUES (2, 7)"),
        ("23514", "INSERT INTO effects VALUES (-1)"),
        ("22P02", "SELECT 'x'::int"),
        ("42P01", "SELECT * FROM nowhere"),
    ] {
        let mut conn = place.begin("BEGIN").await;
        says(&swallow(&mut conn, sql).await, Fault::Retry, code);
    }
}

/// A2
#[tokio::test]
async fn a_swallowed_serialization_failure_is_a_conflict() {
    let place = Place::new().await;
    let mut conn = place.begin("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM locks").await;
    let mut other = place.connect().await;
    run(&mut other, "UPDATE locks SET n = 1 WHERE id = 1").await.unwrap();
    let told = swallow(&mut conn, "UPDATE locks SET n = 2 WHERE id = 1").await;
    says(&told, Fault::Conflict, "40001");
}

/// Both hold a row and want the other's; `conn` notices first.
async fn deadlocked(place: &Place, conn: &mut PgConnection) -> tokio::task::JoinHandle<()> {
    let lock = "SET LOCAL deadlock_timeout = '100ms'; UPDATE locks SET n = 1 WHERE id = 1";
    run(conn, lock).await.unwrap();
    let lock = "BEGIN; SET LOCAL deadlock_timeout = '20s'; UPDATE locks SET n = 1 WHERE id = 2";
    let mut other = place.begin(lock).await;
    tokio::spawn(
        async move { run(&mut other, "UPDATE locks SET n = 1 WHERE id = 1").await.unwrap() },
    )
}

/// A2
#[tokio::test]
async fn a_swallowed_deadlock_is_a_conflict() {
    let place = Place::new().await;
    let mut conn = place.begin("BEGIN").await;
    let other = deadlocked(&place, &mut conn).await;
    let told = swallow(&mut conn, "UPDATE locks SET n = 1 WHERE id = 2").await;
    says(&told, Fault::Conflict, "40P01");
    drop(conn);
    other.await.unwrap();
}

/// A2
#[tokio::test]
async fn a_swallowed_time_out_is_a_conflict() {
    let place = Place::new().await;
    let _holder = place.begin("BEGIN; UPDATE locks SET n = 1 WHERE id = 1").await;
    let mut conn = place.begin("BEGIN; SET LOCAL lock_timeout = '50ms'").await;
    let told = swallow(&mut conn, "UPDATE locks SET n = 1 WHERE id = 1").await;
    says(&told, Fault::Locked, "55P03");
    let mut conn = place.begin("BEGIN; SET LOCAL statement_timeout = '50ms'").await;
    says(&swallow(&mut conn, "SELECT pg_sleep(20)").await, Fault::Conflict, "57014");
}

/// A3
#[tokio::test]
async fn a_verb_never_reaches_the_server() {
    let place = Place::new().await;
    for sql in [
        "COMMIT",
        " -- x\n /* /* nested */ */ commit",
        "SELECT 1; COMMIT",
        "INSERT INTO effects VALUES (8); ROLLBACK; INSERT INTO effects VALUES (9)",
        "SELECT $a$ ; $a$; END",
        "ABORT",
        "START TRANSACTION",
        "SAVEPOINT a",
        "RELEASE a",
        "PREPARE TRANSACTION 'a'",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET LOCAL synchronous_commit = off",
    ] {
        let mut conn = place.begin("BEGIN; INSERT INTO effects VALUES (7)").await;
        let (fault, error) = swallow(&mut conn, sql).await;
        assert_eq!(fault, Fault::Retry);
        assert!(error.contains("a handler may not run "), "{error}");
        let open: bool = sqlx::query_scalar("SELECT count(*) = 2 FROM effects")
            .fetch_one(&mut conn)
            .await
            .expect("the transaction is open and well");
        assert!(open, "{sql} did something");
    }
}

/// Ends the transaction on the lent connection, and goes on.
struct Commits;

impl Handler<Postgres> for Commits {
    type Event = String;

    async fn handle(&self, event: &Event<String>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        run(tx.unguarded().await?, "COMMIT").await?;
        run_on(tx, &event.payload).await?;
        Ok(())
    }
}

/// A3: what is written after a stray COMMIT fails on the read-only session, for good.
#[tokio::test]
async fn a_write_after_a_stray_commit_is_rejected() {
    let place = Place::new().await;
    let mut conn = place.begin("SET default_transaction_read_only = on").await;
    run(&mut conn, "BEGIN READ WRITE").await.unwrap();
    let told = call(&mut conn, Commits, "INSERT INTO effects VALUES (3)").await;
    assert_eq!(told.0, Fault::Reject);
    assert!(told.1.contains("(code 25006)"), "{}", told.1);
}

/// A6
#[tokio::test]
async fn a_half_dropped_statement_gives_the_session_up() {
    let place = Place::new().await;
    let mut conn = place.begin("BEGIN").await;
    let mut tx = Tx::<Postgres>::new(&mut conn, 0);
    let short = Duration::from_millis(50);
    let slow = tokio::time::timeout(short, run_on(&mut tx, "SELECT pg_sleep(20)")).await;
    assert!(slow.is_err());
    assert!(tx.running() && tx.first_fault().unwrap().error.contains("dropped before it finished"));
    let part = tokio::time::timeout(short, run_on(&mut tx, "SELECT 1")).await;
    assert!(part.expect("refused, not waited for").is_err());
}

#[tokio::test]
async fn a_savepoint_forgives_a_failure_and_a_lock_that_is_taken() {
    let place = Place::new().await;
    let _holder = place.begin("BEGIN; UPDATE locks SET n = 1 WHERE id = 1").await;
    let mut conn = place.begin("BEGIN").await;
    let mut tx = Tx::<Postgres>::new(&mut conn, 0);
    for sql in
        ["INSERT INTO effects VALUES (1)", "SELECT * FROM locks WHERE id = 1 FOR UPDATE NOWAIT"]
    {
        let mut part = tx.savepoint().await.unwrap();
        run_on(&mut part, "INSERT INTO effects VALUES (5)").await.unwrap();
        assert!(run_on(&mut part, sql).await.is_err());
        part.rollback().await.unwrap();
        assert_eq!(tx.first_fault(), None);
    }
    let mut part = tx.savepoint().await.unwrap();
    run_on(&mut part, "INSERT INTO effects VALUES (6)").await.unwrap();
    part.release().await.unwrap();
    let rows: Vec<i32> =
        sqlx::query_scalar("SELECT n FROM effects ORDER BY n").fetch_all(&mut tx).await.unwrap();
    assert_eq!(rows, [1, 6]);
}

#[tokio::test]
async fn a_savepoint_does_not_forgive_a_deadlock() {
    let place = Place::new().await;
    let mut conn = place.begin("BEGIN").await;
    let other = deadlocked(&place, &mut conn).await;
    let mut tx = Tx::<Postgres>::new(&mut conn, 0);
    let mut part = tx.savepoint().await.unwrap();
    assert!(run_on(&mut part, "UPDATE locks SET n = 1 WHERE id = 2").await.is_err());
    let error = part.rollback().await.unwrap_err().to_string();
    assert!(error.contains("40P01"), "{error}");
    assert!(tx.first_fault().unwrap().error.contains("deadlock"));
    drop(conn);
    other.await.unwrap();
}
