//! What errors of the database and of producers say to a person.

use inbox_consumer::config::Content;
use serde_json::json;
use tests::{Record, SOON, Stage, eventually};

use super::acting::{TOLD, acting, told};

async fn count(stage: &Stage, pattern: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM inbox_parked WHERE errors::text LIKE '%{pattern}%'");
    stage.schema.number(&sql).await
}

/// Detail, hint and the place in the function are there; a line of the server's source and a row's values are not.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_database_says_what_helps_and_no_value() {
    let stage = Stage::set("errors", 1).await;
    stage
        .schema
        .run(
            "CREATE FUNCTION refuse() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'not today' USING DETAIL = 'account 7', HINT = 'ask ada'; END $$;
             CREATE TABLE strict (secret text, n bigint NOT NULL)",
        )
        .await;
    let running = stage.start(acting()).await;
    let refused = told("a", 1, json!({ "sql": "SELECT refuse()" }));
    let strict = told("b", 1, json!({ "sql": "INSERT INTO strict VALUES ('c4n4ry', NULL)" }));
    stage.send(&[refused, strict]).await;
    eventually(SOON, "they are parked", async || stage.parked("exhausted").await == 2).await;
    let whole = "not today (code P0001); detail: account 7; hint: ask ada; in: PL/pgSQL function refuse() \
                 line 2 at RAISE";
    assert_eq!(count(&stage, whole).await, 1);
    assert_eq!(count(&stage, "violates not-null constraint (code 23502)").await, 1);
    assert_eq!(count(&stage, "c4n4ry").await, 0);
    assert_eq!(count(&stage, " at line ").await, 0);
    running.stop().await;
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
