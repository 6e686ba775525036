//! Declared handlers through the whole stock binary, on real services: the example, what is parked, what is
//! refused before anything starts.

use std::{path::Path, process::Command};

use tests::{Record, SOON, Stage, Worker, eventually};

use super::commands::{ran, worker};

const ACCOUNT: &str = "00000000-0000-7000-8000-000000000001";

/// A configuration file of its own, and the stock binary with it.
struct Stock {
    stage: Stage,
    folder: tempfile::TempDir,
}

impl Stock {
    async fn set(handlers: &str) -> Self {
        let stage = Stage::set("declared", 1).await;
        let stock = Self { stage, folder: tempfile::tempdir().unwrap() };
        stock.declare(handlers);
        stock
    }

    fn declare(&self, handlers: &str) {
        std::fs::write(self.folder.path().join("consumer.toml"), handlers).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = worker(&self.stage);
        command.env("STOCK", "1").current_dir(self.folder.path());
        command
    }

    async fn ran(&self, args: &str) -> (Option<i32>, String, String) {
        let mut command = self.command();
        command.env("INBOX_LOG__FORMAT", "human");
        ran(command, args).await
    }

    fn run(&self) -> Worker {
        Worker::spawn(self.command().arg("run"))
    }

    async fn number(&self, sql: &str) -> i64 {
        self.stage.schema.number(sql).await
    }
}

fn event(id: &str, event_type: &str, aggregate: &str, payload: &str) -> Record {
    Record::event(id, event_type, aggregate, payload)
}

fn paid(n: u32, amount: &str) -> Record {
    let payload =
        format!(r#"{{"account": "{ACCOUNT}", "amount": {amount}, "meta": {{"note": "n{n}"}}}}"#);
    event(&format!("paid-{n}"), "OrderPaid", ACCOUNT, &payload)
}

/// A file of the example.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/declared").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The example as its README says: each event once, in order, by a `kill -9` and second copies.
#[tokio::test]
async fn the_example_applies_each_event_once_and_in_order() {
    let stock = Stock::set(&example("consumer.toml")).await;
    stock.stage.schema.run(&example("schema.sql")).await;
    let (code, out, err) = stock.ran("check").await;
    assert_eq!(code, Some(0), "{out}{err}");
    let paid: Vec<Record> = (0..200).map(|n| paid(n, "0.10")).collect();
    let visit = |n: u32| {
        let payload =
            format!(r#"{{"page": "p{}", "time": "2026-01-31T09:30:{:02}Z"}}"#, n % 3, n % 60);
        event(&format!("visit-{n}"), "PageVisited", &format!("u{n}"), &payload)
    };
    let visits: Vec<Record> = (0..300).map(visit).collect();
    stock.stage.send(&paid).await;
    stock.stage.send(&visits).await;
    let mut running = stock.run();
    let entries = "SELECT count(*) FROM entries";
    eventually(SOON, "the first entries", async || stock.number(entries).await > 0).await;
    running.kill();
    stock.stage.send(&paid[..50]).await;
    stock.stage.send(&visits[..50]).await;
    let mut running = stock.run();
    eventually(SOON, "all entries", async || stock.number(entries).await >= 200).await;
    let visits = "SELECT coalesce(sum(visits), 0)::bigint FROM visits";
    eventually(SOON, "all visits", async || stock.number(visits).await >= 300).await;
    let read = "SELECT count(*) FROM inbox_partitions WHERE watermark = 600";
    eventually(SOON, "everything read", async || stock.number(read).await == 1).await;
    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());
    assert_eq!((stock.number(entries).await, stock.number(visits).await), (200, 300));
    let exact = format!("SELECT count(*) FROM accounts WHERE id = '{ACCOUNT}' AND balance = 20.00");
    assert_eq!(stock.number(&exact).await, 1);
    let strays = "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY balance) - 1 AS n, note FROM entries) e \
                  WHERE note <> 'n' || n";
    assert_eq!(stock.number(strays).await, 0, "each balance is that of its event's turn");
    assert_eq!(stock.stage.parked("").await, 0);
}

/// The function that runs a statement for each event is the session's own, and no name in its call says that a handler
/// has left something there: taking that back after each transaction cost more than the transaction.
#[tokio::test]
async fn sessions_of_declared_handlers_are_not_taken_back() {
    let handlers = "[[handlers]]\nevent_type = \"Seen\"\nmode = \"each\"\nsql = \"INSERT INTO seen SELECT event_id FROM events\"\n";
    let stock = Stock::set(handlers).await;
    stock.stage.schema.run("CREATE TABLE seen (id uuid)").await;
    let mut running = stock.run();
    for number in 0..20 {
        let id = format!("seen-{number}");
        stock.stage.send(&[event(&id, "Seen", &id, "{}")]).await;
    }
    let seen = "SELECT count(*) FROM seen";
    eventually(SOON, "all events", async || stock.number(seen).await == 20).await;
    let all: Vec<Record> =
        (0..200).map(|n| event(&format!("many-{n}"), "Seen", "a", "{}")).collect();
    stock.stage.send(&all).await;
    eventually(SOON, "all events", async || stock.number(seen).await == 220).await;
    let sessions = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inbox/{}'",
        stock.stage.config.consumer.name
    );
    assert!(stock.number(&sessions).await > 0);
    let taken_back = format!("{sessions} AND query LIKE '%RESET ALL%'");
    assert_eq!(stock.number(&taken_back).await, 0);
    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());
}

/// Wrong and missing values park their event with a sentence, and what follows it for its aggregate.
#[tokio::test]
async fn a_value_that_does_not_fit_parks_its_event_with_a_sentence() {
    let stock = Stock::set(&example("consumer.toml")).await;
    stock.stage.schema.run(&example("schema.sql")).await;
    let of = |id: &str, payload: &str| event(id, "OrderPaid", id, payload);
    let none = Record::default().key("g").header("event_id", "g").header("event_type", "OrderPaid");
    let good = |id: &str| of(id, &format!(r#"{{"account": "{ACCOUNT}", "amount": "1.00"}}"#));
    let bad = [
        (
            of("a", &format!(r#"{{"account": "{ACCOUNT}", "amount": true}}"#)),
            "column `amount`: expected numeric (a number, or a number as text) in the payload at `/amount`, found a boolean;",
        ),
        (
            of("b", r#"{"account": "s3cret", "amount": 1}"#),
            "column `account`: expected uuid (a UUID as text) in the payload at `/account`, found text that is not a UUID;",
        ),
        (
            of("c", r#"{"amount": 1}"#),
            "column `account`: expected uuid (a UUID as text) in the payload at `/account`, found nothing or null;",
        ),
        (
            of(
                "d",
                &format!(
                    r#"{{"account": "{ACCOUNT}", "amount": 1, "meta": {{"note": ["s3cret"]}}}}"#
                ),
            ),
            "column `note`: expected text (text without NUL characters) in the payload at `/meta/note`, found an array;",
        ),
        (of("e", "{\"account\": s3cret"), "the payload is not JSON: "),
        (
            event("f", "PageVisited", "f", r#"{"page": "p", "time": "s3cret"}"#),
            "column `at`: expected timestamptz (an RFC 3339 time such as 2026-01-31T09:30:00Z, or milliseconds since 1970) in the payload at `/time`, found text that is not a time;",
        ),
        (none, "column `account`: expected uuid"),
    ];
    let mut records: Vec<Record> = bad.iter().map(|(record, _)| record.clone()).collect();
    records.push(event(
        "follows",
        "OrderPaid",
        "a",
        &format!(r#"{{"account": "{ACCOUNT}", "amount": 1}}"#),
    ));
    records.push(good("good"));
    stock.stage.send(&records).await;
    let mut running = stock.run();
    let entries = async || stock.number("SELECT count(*) FROM entries").await;
    eventually(SOON, "all accounted for", async || {
        (entries().await, stock.stage.parked("").await) == (1, 8)
    })
    .await;
    for (offset, (_, sentence)) in (0_i64..).zip(&bad) {
        let (reason, error): (String, String) = sqlx::query_as(
            "SELECT reason, record::jsonb ->> 'error' FROM inbox_parked WHERE \"offset\" = $1",
        )
        .bind(offset)
        .fetch_one(stock.stage.schema.pool())
        .await
        .unwrap();
        assert_eq!(reason, "undecodable", "{error}");
        assert!(error.starts_with(sentence) && error.contains("fix its producer"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert_eq!(stock.stage.parked("follower").await, 1);
    assert!(!running.log().contains("s3cret"), "{}", running.log());
    running.terminate();
    running.ended(SOON).await;
}

/// The loop does not know which event failed; the careful run does, and the others pay nothing.
#[tokio::test]
async fn only_the_event_whose_statement_fails_is_parked() {
    for mode in ["each", "run"] {
        let stock = Stock::set(&format!(
            "[[handlers]]\nevent_type = \"Counted\"\nmode = \"{mode}\"\ncolumns = {{ n = \"int8\" }}\n\
             sql = \"INSERT INTO effects (aggregate, n, event_id, pid) SELECT aggregate_id, n, event_id, 0 FROM events ORDER BY ord\"\n"
        ))
        .await;
        stock.stage.schema.run("ALTER TABLE effects ADD CHECK (n <> 7 OR aggregate <> 'a')").await;
        for aggregate in ["a", "b", "c"] {
            stock.stage.count(aggregate, 1, 20).await;
        }
        let mut running = stock.run();
        eventually(SOON, "all accounted for", async || {
            (stock.stage.effects().await, stock.stage.parked("").await) == (46, 14)
        })
        .await;
        assert_eq!(stock.stage.of("a").await, (1..=6).collect::<Vec<i64>>(), "{mode}");
        assert_eq!(stock.stage.of("b").await, (1..=20).collect::<Vec<i64>>(), "{mode}");
        let sql = "SELECT record::jsonb ->> 'error' FROM inbox_parked WHERE reason = 'exhausted'";
        let error: String =
            sqlx::query_scalar(sql).fetch_one(stock.stage.schema.pool()).await.unwrap();
        assert!(error.contains("violates check constraint") && error.contains("23514"), "{error}");
        assert_eq!(stock.stage.parked("follower").await, 13, "{mode}");
        running.terminate();
        running.ended(SOON).await;
    }
}

/// The same binary on SQLite.
#[tokio::test]
async fn the_stock_binary_runs_on_sqlite() {
    let stock = Stock::set(
        "[[handlers]]\nevent_type = \"Counted\"\ncolumns = { n = \"int8\" }\n\
         sql = \"INSERT INTO effects SELECT aggregate_id, n FROM events\"\n",
    )
    .await;
    let file = stock.folder.path().join("effects.db");
    let url = format!("sqlite:{}", file.display());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("CREATE TABLE effects (aggregate TEXT, n INTEGER)").execute(&pool).await.unwrap();
    let on_sqlite = || {
        let mut command = stock.command();
        command.env("INBOX_DATABASE__URL", &url);
        command
    };
    for (args, code) in [("check", Some(5)), ("migrate", Some(0)), ("check", Some(0))] {
        let (exit, out, err) = ran(on_sqlite(), args).await;
        assert_eq!(exit, code, "{args}: {out}{err}");
    }
    stock.stage.count("a", 1, 50).await;
    let mut running = Worker::spawn(on_sqlite().arg("run"));
    let effects = async || -> Vec<i64> {
        sqlx::query_scalar("SELECT n FROM effects ORDER BY rowid").fetch_all(&pool).await.unwrap()
    };
    eventually(SOON, "all effects", async || effects().await.len() == 50).await;
    assert_eq!(effects().await, (1..=50).collect::<Vec<i64>>());
    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());
}

/// Wrong configurations: exit code 2 and one sentence each, before anything starts; `check` says the same.
#[tokio::test]
async fn a_wrong_handler_is_refused_before_anything_starts() {
    let stock = Stock::set("").await;
    let handler = |more: &str| format!("[[handlers]]\nevent_type = \"T\"\n{more}\n");
    let sql = "sql = \"DELETE FROM effects\"";
    let table: [(String, &[&str]); 16] = [
        (
            handler("columns = { a = \"int64\" }\nsql = \"DELETE FROM effects\""),
            &["`T`", "column `a`", "unknown type `int64`", "did you mean `int8`?"],
        ),
        (
            handler("columns = { a = \"int8 from a\" }\nsql = \"DELETE FROM effects\""),
            &["column `a` is read from `a`", "write `/json/pointer`"],
        ),
        (
            handler("columns = { event_id = \"uuid\" }\nsql = \"DELETE FROM effects\""),
            &["column `event_id` exists without being declared"],
        ),
        (
            handler("columns = [\"a\"]\nsql = \"DELETE FROM effects\""),
            &["`handlers.columns` in consumer.toml, line 3", "found a list"],
        ),
        (
            handler(&format!("{sql}\n[[handlers]]\nevent_type = \"T\"\n{sql}")),
            &["type `T` are registered twice", "remove one of them"],
        ),
        (handler(""), &["`sql` is missing in the [[handlers]] of consumer.toml, line 1"]),
        (
            handler("mode = \"batch\"\nsql = \"DELETE FROM effects\""),
            &["`handlers.mode` in consumer.toml, line 3", "each, run"],
        ),
        (
            handler(&format!("one_per_aggregate = true\n{sql}")),
            &["`one_per_aggregate`", "set mode = \"run\""],
        ),
        (
            handler("statement = \"DELETE FROM effects\"\nsql = \"DELETE FROM effects\""),
            &["unknown key `handlers.statement`", "line 3"],
        ),
        (handler("sql = \"DROP TABLE effects\""), &["its statement begins with DROP"]),
        (handler("sql = \"COMMIT\""), &["its statement begins with COMMIT"]),
        (handler("sql = \"DELETE FROM effects; COMMIT\""), &["holds several statements"]),
        (
            handler("sql = \"DELETE FROM effects WHERE n = $1\""),
            &["has a parameter", "columns of the relation"],
        ),
        (
            handler("sql = \"DELETE FROM efects\""),
            &["at line 1, column 13 of it", "relation \"efects\" does not exist"],
        ),
        (
            handler(
                "columns = { n = \"text\" }\nsql = \"UPDATE effects SET n = e.n FROM events e\"",
            ),
            &["column \"n\" is of type bigint but expression is of type text"],
        ),
        (String::new(), &["no event type has a handler", "[[handlers]]"]),
    ];
    for (handlers, parts) in &table {
        stock.declare(handlers);
        let (code, out, err) = stock.ran("run").await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{handlers}: {err}");
        let told: Vec<&str> = err.lines().filter(|line| line.starts_with("error: ")).collect();
        let [told] = told[..] else { panic!("{handlers}: {err}") };
        for part in *parts {
            assert!(told.contains(part), "{part:?} is missing: {told}");
        }
        let (code, out, err) = stock.ran("check").await;
        let said = out + &err;
        let told = told.trim_start_matches("error: ");
        assert!(matches!(code, Some(2 | 5)) && said.contains(told), "{handlers}: {code:?} {said}");
    }
}

/// A binary with handlers in Rust takes declared ones beside them, and refuses two for one type.
#[tokio::test]
async fn declared_handlers_stand_beside_those_in_rust() {
    let handler = |event_type: &str| {
        format!(
            "[[handlers]]\nevent_type = \"{event_type}\"\ncolumns = {{ n = \"int8\" }}\n\
             sql = \"INSERT INTO effects (aggregate, n, event_id, pid) SELECT aggregate_id, -n, event_id, 0 FROM events\"\n"
        )
    };
    let stock = Stock::set(&handler("Negated")).await;
    let with_rust = || {
        let mut command = stock.command();
        command.env_remove("STOCK");
        command
    };
    stock.stage.send(&[tests::counted("a", 1), event("a-2", "Negated", "a", "{\"n\": 2}")]).await;
    let mut running = Worker::spawn(with_rust().arg("run"));
    eventually(SOON, "both effects", async || stock.stage.effects().await == 2).await;
    assert_eq!(stock.stage.of("a").await, [1, -2]);
    running.terminate();
    running.ended(SOON).await;
    stock.declare(&handler("Counted"));
    let (code, _, err) = ran(with_rust(), "run").await;
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains(
            "type `Counted` are registered twice, with the handler `lab::worker::Count` and with the"
        ),
        "{err}"
    );
}

/// `UPDATE … FROM events` applies one of two rows for a target, silently; so a run has each aggregate once unless
/// the configuration says otherwise.
#[tokio::test]
async fn an_update_from_a_run_applies_both_events_of_an_aggregate() {
    let stock = Stock::set(
        "[[handlers]]\nevent_type = \"Paid\"\nmode = \"run\"\ncolumns = { amount = \"int8\" }\n\
         sql = \"UPDATE effects SET n = n + e.amount FROM events e WHERE aggregate = e.aggregate_id\"\n",
    )
    .await;
    let row = "INSERT INTO effects (aggregate, n, event_id, pid) VALUES ('a', 0, '', 0)";
    stock.stage.schema.run(row).await;
    let paid = |n: i64| event(&format!("a-{n}"), "Paid", "a", &format!("{{\"amount\": {n}}}"));
    stock.stage.send(&(1..=20).map(paid).collect::<Vec<_>>()).await;
    let mut running = Worker::spawn(stock.command().arg("run"));
    eventually(SOON, "all are settled", async || {
        stock.stage.schema.number("SELECT coalesce(max(watermark), 0) FROM inbox_partitions").await
            == 20
    })
    .await;
    running.terminate();
    running.ended(SOON).await;
    assert_eq!(stock.stage.of("a").await, [210]);
}
