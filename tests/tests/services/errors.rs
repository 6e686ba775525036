//! What errors of the database and of producers say to a person.

use inbox_consumer::config::Content;
use serde_json::json;
use tests::{Record, SOON, Stage, Worker, eventually};

use super::{
    acting::{TOLD, acting, told},
    commands::worker,
};

async fn count(stage: &Stage, pattern: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM inbox_parked WHERE errors::text LIKE '%{pattern}%'");
    stage.schema.number(&sql).await
}

/// Hint, constraint and the place in the function are there; a line of the server's source and values are not.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_database_says_what_helps_and_no_value() {
    let stage = Stage::set("errors", 1).await;
    stage
        .schema
        .run(
            "CREATE FUNCTION refuse() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'not today' USING DETAIL = 'account 7', HINT = 'ask ada'; END $$;
             CREATE TABLE strict (secret text CONSTRAINT once UNIQUE, n bigint NOT NULL)",
        )
        .await;
    let running = stage.start(acting()).await;
    let refused = told("a", 1, json!({ "sql": "SELECT refuse()" }));
    let strict = told("b", 1, json!({ "sql": "INSERT INTO strict VALUES ('c4n4ry', NULL)" }));
    stage.send(&[refused, strict]).await;
    eventually(SOON, "they are parked", async || stage.parked("exhausted").await == 2).await;
    let told = "not today (code P0001); hint: ask ada; in: PL/pgSQL function refuse() line 2 at RAISE; values \
                are redacted, `log.database_text = true` shows them";
    assert_eq!(count(&stage, told).await, 1);
    assert_eq!(count(&stage, "violates not-null constraint (code 23502)").await, 1);
    assert_eq!(count(&stage, "c4n4ry").await, 0);
    assert_eq!(count(&stage, " at line ").await, 0);
    running.stop().await;
}

/// Statements that fail with a value in what the server says, each with what is told of it.
const QUOTING: [(&str, &str); 5] = [
    ("SELECT 'c4n4ry'::uuid", "invalid input syntax for type uuid: … (code 22P02)"),
    (
        "INSERT INTO accounts VALUES ('c4n4ry'), ('c4n4ry')",
        "violates unique constraint \"only_once\" (code 23505); table: accounts; detail: key (iban); values",
    ),
    (
        "SELECT count(*) FROM accounts WHERE iban = 7 || 'c4n4ry' AND nowhere = 1",
        "column \"nowhere\" does not exist",
    ),
    ("SELECT '{\"a\": c4n4ry}'::jsonb", "invalid input syntax for type json (code 22P02); values"),
    (
        "DO $$ BEGIN RAISE EXCEPTION 'account % is closed', 'c4n4ry'; END $$",
        "account … is closed (code P0001)",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_value_in_what_the_database_says_is_told_where_a_key_asks_for_it_alone() {
    let stage = Stage::set("errors", 1).await;
    stage.schema.run("CREATE TABLE accounts (iban text CONSTRAINT only_once UNIQUE)").await;
    let running = stage.start(acting()).await;
    for (at, (sql, _)) in QUOTING.iter().enumerate() {
        stage.send(&[told(&format!("a{at}"), 1, json!({ "sql": sql }))]).await;
    }
    let count_all = i64::try_from(QUOTING.len()).unwrap();
    eventually(SOON, "they are parked", async || stage.parked("exhausted").await == count_all)
        .await;
    for (sql, wanted) in QUOTING {
        assert_eq!(count(&stage, &wanted.replace('"', "_%")).await, 1, "{sql}");
    }
    assert_eq!(count(&stage, "c4n4ry").await, 0);
    running.stop().await;
}

/// The same by the stock binary, which is told to show them, and what it logs.
#[tokio::test(flavor = "multi_thread")]
async fn the_whole_text_of_the_database_is_behind_a_key() {
    for (shown, wanted) in [(false, 0), (true, 1)] {
        let stage = Stage::set("errors", 1).await;
        stage.schema.run("CREATE TABLE once (iban uuid)").await;
        let folder = tempfile::tempdir().unwrap();
        let handlers = "[[handlers]]\nevent_type = \"Opened\"\ncolumns = { iban = \"text\" }\n\
                        sql = \"INSERT INTO once SELECT iban::uuid FROM events\"\n";
        std::fs::write(folder.path().join("consumer.toml"), handlers).unwrap();
        let mut command = worker(&stage);
        command.env("STOCK", "1").env("INBOX_LOG__DATABASE_TEXT", shown.to_string());
        let running = Worker::spawn(command.current_dir(folder.path()).arg("run"));
        stage.send(&[Record::event("1", "Opened", "a", r#"{"iban": "c4n4ry"}"#)]).await;
        eventually(SOON, "it is parked", async || stage.parked("exhausted").await == 1).await;
        assert_eq!(count(&stage, "c4n4ry").await, wanted);
        assert_eq!(running.log().contains("c4n4ry"), shown, "{}", running.log());
        assert!(running.log().contains("invalid input syntax for type uuid"));
    }
}

/// The same id with the keys of its JSON in another order, then with another value.
async fn sent_again(stage: &Stage) {
    let event =
        |partition, payload| Record::event("twice", TOLD, "a", payload).partition(partition);
    stage.send(&[event(0, r#"{"n":1,"by":"ada"}"#)]).await;
    eventually(SOON, "the first is applied", async || stage.effects().await == 1).await;
    stage.send(&[event(1, r#"{"by":"ada", "n":1}"#)]).await;
    let other = Record::event("after", TOLD, "b", r#"{"n":1}"#);
    stage.send(&[other.partition(1)]).await;
    eventually(SOON, "what comes behind is applied", async || stage.effects().await == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mismatch_names_topic_and_partition() {
    let stage = Stage::set("errors", 2).await;
    let running = stage.start(acting()).await;
    sent_again(&stage).await;
    let place =
        format!("was accepted at offset 0 of {}/0: the producer reuses ids", stage.topic.name());
    assert_eq!((stage.parked("mismatch").await, count(&stage, &place).await), (1, 1));
    running.stop().await;
}

/// And what was accepted before the setting was changed is known as it was then.
#[tokio::test(flavor = "multi_thread")]
async fn json_in_another_order_is_a_copy_where_a_setting_says_so() {
    let mut stage = Stage::set("errors", 2).await;
    stage.config.events.content = Content::Json;
    let running = stage.start(acting()).await;
    sent_again(&stage).await;
    assert_eq!(stage.parked("").await, 0);
    running.stop().await;
    stage.config.events.content = Content::Bytes;
    let running = stage.start(acting()).await;
    let copy = Record::event("twice", TOLD, "a", r#"{"n":1,"by":"ada"}"#);
    let last = Record::event("last", TOLD, "c", r#"{"n":1}"#);
    stage.send(&[copy.partition(1), last.partition(1)]).await;
    eventually(SOON, "what comes behind is applied", async || stage.effects().await == 3).await;
    assert_eq!(stage.parked("").await, 0);
    running.stop().await;
}
