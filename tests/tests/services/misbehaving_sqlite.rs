//! Handlers that misbehave on SQLite, case by case, without Kafka: what becomes of the event, what is told, and
//! what is left of it.

use std::time::Duration;

use futures::StreamExt as _;
use inbox_consumer::testing::{HandlerTest, Outcome};
use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx, config::Config};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Sqlite, SqliteConnection};
use tests::{Count, Record, SOON};

use super::misbehaving::Fate::{self, Done, Parked};
use super::misbehaving::refused;
use super::misbehaving_inputs::Note;

/// Tables of the handlers. Foreign keys are on.
const TABLES: &str = "CREATE TABLE effects (aggregate TEXT, n INTEGER); CREATE TABLE seen (what TEXT); \
    CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER CHECK (balance >= 0)); \
    INSERT INTO accounts VALUES (1, 0); \
    CREATE TABLE bookings (account INTEGER REFERENCES accounts DEFERRABLE INITIALLY DEFERRED); \
    CREATE TABLE guarded (n INTEGER); \
    CREATE TRIGGER undo BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'undone by a trigger'); END; \
    CREATE TRIGGER refuse AFTER INSERT ON bookings WHEN NEW.account < 0 \
    BEGIN SELECT RAISE(ABORT, 'refused by a trigger'); END;";

/// What of a session would change what later events do.
const SESSION: &str = "INSERT INTO seen SELECT (SELECT count(*) FROM temp.sqlite_master) || '|' || \
    (SELECT count(*) FROM pragma_database_list) || '|' || (SELECT * FROM pragma_foreign_keys) || '|' || \
    (SELECT * FROM pragma_recursive_triggers) || '|' || (SELECT * FROM pragma_synchronous)";

/// What a handler does beside its effect, which it writes first.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Act {
    DropsStatement,
    Fails,
    LeavesSavepoint,
    LeavesStream,
    Panics,
    Rejects,
    Sleeps,
    Spins,
    TakesSavepoints,
    WritesElsewhere,
}
use Act::{
    DropsStatement, Fails, LeavesSavepoint, LeavesStream, Panics, Rejects, Sleeps, Spins,
    TakesSavepoints, WritesElsewhere,
};

#[derive(Serialize, Deserialize)]
struct Told {
    n: i64,
    act: Option<Act>,
    sql: Option<String>,
    /// Through `tx.unguarded()`.
    past: bool,
    /// Answer `Ok` whatever the SQL says.
    swallow: bool,
}

/// Knows the file that it has no business with.
struct Misbehaves(String);

async fn effect(aggregate: &str, n: i64, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
    let effect = sqlx::query("INSERT INTO effects VALUES (?, ?)").bind(aggregate).bind(n);
    effect.execute(&mut *tx).await?;
    Ok(())
}

impl Handler<Sqlite> for Misbehaves {
    type Event = Told;

    async fn handle(&self, event: &Event<Told>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let told = &event.payload;
        effect(event.aggregate().aggregate_id(), told.n, tx).await?;
        if let Some(sql) = &told.sql {
            let sql = sqlx::raw_sql(AssertSqlSafe(sql.clone()));
            let done = match told.past {
                true => sql.execute(tx.unguarded().await?).await,
                false => sql.execute(&mut *tx).await,
            };
            if !told.swallow {
                done?;
            }
        }
        match told.act {
            None => Ok(()),
            Some(Fails) => Err(HandlerError::retry("not today")),
            Some(Rejects) => Err(HandlerError::reject("told to reject")),
            Some(Panics) => panic!("told to panic"),
            Some(Sleeps) => {
                tokio::time::sleep(SOON).await;
                Ok(())
            }
            Some(Spins) => loop {
                tokio::task::yield_now().await;
            },
            Some(WritesElsewhere) => {
                let mut own = SqliteConnection::connect(&self.0).await?;
                sqlx::raw_sql("PRAGMA busy_timeout = 100").execute(&mut own).await?;
                sqlx::raw_sql("INSERT INTO seen VALUES ('own')").execute(&mut own).await?;
                Ok(())
            }
            Some(act) => leaves(act, tx).await,
        }
    }
}

async fn leaves(act: Act, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
    match act {
        DropsStatement => {
            let slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) \
                        SELECT sum(i) FROM n";
            let slow = sqlx::query(slow).execute(&mut *tx);
            drop(tokio::time::timeout(Duration::from_millis(1), slow).await);
        }
        LeavesSavepoint => drop(tx.savepoint().await?),
        LeavesStream => {
            let mut rows = sqlx::query("SELECT 1 UNION SELECT 2").fetch(&mut *tx);
            assert!(rows.next().await.is_some());
        }
        _ => {
            for _ in 0..40 {
                tx.savepoint().await?.release().await?;
            }
        }
    }
    Ok(())
}

struct Counter;

impl Handler<Sqlite> for Counter {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        effect(event.aggregate().aggregate_id(), event.payload.n, tx).await
    }
}

struct Notes;

impl Handler<Sqlite> for Notes {
    type Event = Note;

    async fn handle(&self, event: &Event<Note>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        effect(event.payload.text.as_str().unwrap_or_default(), event.payload.n, tx).await
    }
}

/// A consumer on an SQLite in memory.
pub async fn bench(configure: impl FnOnce(&mut Config)) -> HandlerTest<Sqlite> {
    started(HandlerTest::sqlite().await.unwrap(), "", configure).await
}

async fn started(
    mut bench: HandlerTest<Sqlite>,
    url: &str,
    configure: impl FnOnce(&mut Config),
) -> HandlerTest<Sqlite> {
    bench.execute(TABLES).await.unwrap();
    bench.configure(|config| {
        config.retry.attempts_max = 2;
        configure(config);
    });
    let routes = Routes::default().on("Counted", Counter).on("Noted", Notes);
    bench.handle(routes.on("Told", Misbehaves(url.to_owned()))).await.unwrap();
    bench
}

struct Case {
    told: Told,
    fate: Fate,
}

fn act(act: Act, fate: Fate) -> Case {
    Case { told: Told { n: 1, act: Some(act), sql: None, past: false, swallow: false }, fate }
}

fn sql(sql: &str, fate: Fate) -> Case {
    let sql = Some(sql.to_owned());
    Case { told: Told { n: 1, act: None, sql, past: false, swallow: false }, fate }
}

fn past(text: &str, fate: Fate) -> Case {
    let case = sql(text, fate);
    Case { told: Told { past: true, ..case.told }, fate }
}

fn swallowed(case: Case) -> Case {
    Case { told: Told { swallow: true, ..case.told }, ..case }
}

/// What is wrong with a case.
async fn wrong(bench: &mut HandlerTest<Sqlite>, at: usize, case: &Case) -> Option<String> {
    let Case { told, fate } = case;
    let name = told.sql.clone().unwrap_or_else(|| format!("{:?}", told.act));
    let bad = format!("bad-{at}");
    let record = Record::event(&bad, "Told", &bad, &json!(told).to_string()).as_read();
    let outcome = match bench.deliver_record(&record).await {
        Ok(outcome) => outcome,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    let right = match (fate, &outcome) {
        (Done, Outcome::Applied) => true,
        (Parked(why, words), Outcome::Parked { reason, error, .. }) => {
            why == reason && error.contains(words)
        }
        _ => false,
    };
    let effects = format!("SELECT count(*) FROM effects WHERE aggregate = '{bad}'");
    let effects = bench.number(&effects).await.unwrap();
    if !right || effects != i64::from(*fate == Done) {
        return Some(format!("{name}: {outcome:?}, {effects} effects, instead of {fate:?}"));
    }
    let look = json!(sql(SESSION, Done).told).to_string();
    let later = format!("later-{at}");
    let later = Record::event(&later, "Told", &later, &look).as_read();
    let later = bench.deliver_record(&later).await;
    (later != Ok(Outcome::Applied)).then(|| format!("{name}: then {later:?}"))
}

async fn check(mut bench: HandlerTest<Sqlite>, cases: &[Case]) {
    let mut all = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        all.extend(wrong(&mut bench, at, case).await);
    }
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
    let sessions = bench.number("SELECT count(DISTINCT what) FROM seen").await.unwrap();
    assert_eq!(sessions, 1, "later events see a session like the first");
    bench.close().await.unwrap();
}

/// Verbs of the transaction and of the file, openly and past the guard.
#[tokio::test]
async fn a_handler_on_sqlite_ends_no_transaction_and_changes_no_session() {
    const VERB: Fate = refused("a handler may not run");
    let ended = Parked("rejected", "a handler ended the transaction");
    // The session's hook refuses every COMMIT but the runtime's.
    let hook = Parked("rejected", "constraint failed (code 531)");
    let cases = [
        sql("COMMIT", VERB),
        sql("END TRANSACTION", VERB),
        sql("ROLLBACK", VERB),
        sql("BEGIN", VERB),
        sql("SAVEPOINT mine", VERB),
        sql("/* no */ SELECT 1; commit", VERB),
        sql("PRAGMA foreign_keys = off", VERB),
        sql("ATTACH ':memory:' AS other", VERB),
        sql("VACUUM", VERB),
        swallowed(sql("COMMIT", VERB)),
        past("COMMIT", hook),
        swallowed(past("COMMIT", ended)),
        past("ROLLBACK", ended),
        past("ROLLBACK; INSERT INTO seen VALUES ('after')", hook),
        past("PRAGMA recursive_triggers = on", Done),
        past("PRAGMA foreign_keys = off", Done),
        past("ATTACH ':memory:' AS other", Done),
        sql("CREATE TEMP TABLE mine (n)", Done),
    ];
    check(bench(|_| {}).await, &cases).await;
}

/// Errors of the database, returned and swallowed, and those that end the transaction.
#[tokio::test]
async fn an_error_on_sqlite_is_an_attempt_that_failed() {
    let again = "INSERT INTO accounts VALUES (1, 0)";
    let cases = [
        sql(again, Parked("exhausted", "UNIQUE constraint failed")),
        swallowed(sql(again, Parked("exhausted", "the handler swallowed an error"))),
        sql("INSERT INTO accounts VALUES (2, -1)", Parked("exhausted", "CHECK constraint failed")),
        sql("SELECT * FROM nowhere", Parked("exhausted", "no such table: nowhere")),
        sql("SELECT json('{')", Parked("exhausted", "malformed JSON")),
        sql(
            "INSERT INTO bookings VALUES (404)",
            Parked("exhausted", "FOREIGN KEY constraint failed"),
        ),
        sql("INSERT INTO bookings VALUES (-1)", Parked("exhausted", "refused by a trigger")),
        sql(
            "INSERT INTO guarded VALUES (1)",
            Parked("rejected", "a handler ended the transaction"),
        ),
        swallowed(sql(
            "INSERT INTO guarded VALUES (1)",
            Parked("rejected", "a handler ended the transaction"),
        )),
        swallowed(past(
            "INSERT INTO guarded VALUES (1)",
            Parked("rejected", "a handler ended the transaction"),
        )),
        sql(
            "INSERT OR ROLLBACK INTO accounts VALUES (1, 0)",
            Parked("rejected", "a handler ended the transaction"),
        ),
        swallowed(past(again, Done)),
        sql("SELECT 1 / 0", Done),
        sql("INSERT INTO seen SELECT what || char(0) FROM seen WHERE false", Done),
    ];
    check(bench(|_| {}).await, &cases).await;
}

/// What a handler answers, leaves half done, or waits for.
#[tokio::test]
async fn what_a_handler_on_sqlite_leaves_half_done_is_an_attempt_that_failed() {
    let late = Parked("exhausted", "did not finish within 300ms");
    let cases = [
        act(Fails, Parked("exhausted", "not today")),
        act(Rejects, Parked("rejected", "told to reject")),
        act(Panics, Parked("exhausted", "the handler panicked: told to panic")),
        act(DropsStatement, Parked("exhausted", "dropped before it finished")),
        act(LeavesStream, Parked("exhausted", "dropped before it finished")),
        act(LeavesSavepoint, Parked("exhausted", "dropped unfinished")),
        act(TakesSavepoints, Parked("exhausted", "31 savepoints")),
        act(Sleeps, late),
        act(Spins, late),
    ];
    let hurry = |config: &mut Config| {
        config.database.lock_timeout = Duration::from_millis(100);
        config.database.statement_timeout = Duration::from_millis(200);
        config.retry.attempt_deadline = Duration::from_millis(300);
    };
    check(bench(hurry).await, &cases).await;
}

/// A connection of its own waits for the transaction that waits for it: SQLite has one writer.
#[tokio::test]
async fn a_second_connection_to_the_file_meets_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inbox.db");
    let bench = HandlerTest::sqlite_file(&file).await.unwrap();
    let bench = started(bench, &format!("sqlite:{}", file.display()), |_| {}).await;
    check(bench, &[act(WritesElsewhere, Parked("exhausted", "database is locked"))]).await;
}

/// The inbox's own tables: what names them is refused.
#[tokio::test]
async fn the_tables_of_the_inbox_are_the_runtime_s_on_sqlite() {
    const OWN: Fate = refused("belongs to the inbox");
    let cases = [
        sql("DELETE FROM inbox_events", OWN),
        sql("DELETE FROM main.\"inbox_events\"", OWN),
        sql("REPLACE INTO inbox_events SELECT * FROM inbox_events", OWN),
        sql("UPDATE OR IGNORE inbox_lanes SET last_offset = 0", OWN),
        sql("DROP TABLE inbox_parked", OWN),
        sql("ALTER TABLE inbox_parked ADD COLUMN x", OWN),
        sql("INSERT INTO seen SELECT 'x' FROM inbox_events WHERE false", Done),
        past(
            "UPDATE inbox_lanes SET last_offset = last_offset + 1000",
            Parked("rejected", "inbox_lanes"),
        ),
    ];
    check(bench(|_| {}).await, &cases).await;
}
