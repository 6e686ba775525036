//! One aggregate is forgotten beside a consumer that runs: its parked events, errors and the words about it.

use inbox_consumer::Ended;
use tests::{
    SOON, Stage, counted,
    deploy::{Deploy, charged},
    eventually,
};

use super::parked_support::{acts, parked, said, seq, told, typed};

#[tokio::test]
async fn a_forgotten_aggregate_leaves_no_word_and_its_order_stays() {
    let stage = Stage::set("forgotten", 1).await;
    let deploy = Deploy::bad();
    stage.send(&[charged("a", 1), counted("a", 2), charged("b", 1)]).await;
    let running = parked(&stage, &deploy, 3).await;
    let head = seq(&stage, 0).await;
    let why = "Anna Example wrote a mail";
    typed(&stage, &["parked", "release", &head, "--why", why, "--wait", "20s"]).await;
    let list = told(&stage, &["parked", "list", "--json"]).await;
    let aggregate = list["parked"][0]["aggregate"].as_str().unwrap().to_owned();
    assert!(aggregate.ends_with("/a"), "{aggregate}");

    let (code, _, err) = typed(&stage, &["forget", "--aggregate", &aggregate]).await;
    assert_eq!((code, stage.parked("").await), (Some(6), 3), "it asks first: {err}");
    let out = said(&stage, &["forget", "--aggregate", &aggregate, "--yes"]).await;
    assert!(out.starts_with("forgotten: 2 parked events discarded, and "), "{out}");
    assert_eq!(stage.parked("").await, 1, "b stays");
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_events").await, 3, "rows stay");
    let left = format!(
        "SELECT (SELECT count(*) FROM inbox_audit a WHERE a::text LIKE '%{aggregate}%' OR a::text LIKE '%Anna%')
            + (SELECT count(*) FROM inbox_parked q WHERE q::text LIKE '%{aggregate}%')
            + (SELECT count(*) FROM inbox_partitions p WHERE p::text LIKE '%{aggregate}%')"
    );
    assert_eq!(stage.schema.number(&left).await, 0);
    assert_eq!(acts(&stage, "forget").await, 1);

    // What follows is handled, and a copy of what was discarded is still a copy.
    deploy.mend();
    stage.send(&[charged("a", 1), counted("a", 2), counted("a", 3)]).await;
    eventually(SOON, "the next", async || stage.of("a").await == [3]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Nobody discards what nobody owns: nothing is erased before that.
#[tokio::test]
async fn without_an_owner_nothing_is_forgotten_yet() {
    let stage = Stage::set("forgotten", 1).await;
    stage.send(&[charged("a", 1)]).await;
    assert_eq!(parked(&stage, &Deploy::bad(), 1).await.stop().await, Ended::Shutdown);
    let list = told(&stage, &["parked", "list", "--json"]).await;
    let aggregate = list["parked"][0]["aggregate"].as_str().unwrap().to_owned();
    let args = ["forget", "--aggregate", &aggregate, "--yes", "--wait", "1s"];
    let (code, _, err) = typed(&stage, &args).await;
    assert_eq!((code, acts(&stage, "forget").await), (Some(7), 0), "{err}");
    assert!(err.contains("still parked after 1s: check that a consumer runs"), "{err}");
}

#[tokio::test]
async fn the_audit_ends_where_its_retention_says() {
    let stage = Stage::set("forgotten", 1).await;
    stage.send(&[charged("a", 1)]).await;
    parked(&stage, &Deploy::bad(), 1).await.stop().await;
    let act = "INSERT INTO inbox_audit (who, what, consumer_ref, at)
        SELECT 'ada', 'skip', consumer_ref, now() - interval '40 days' FROM inbox_consumers";
    stage.schema.run(act).await;
    assert_eq!(said(&stage, &["prune"]).await, "removed 0 inbox rows\n", "kept for ever");
    let prune = ["prune", "--set", "retention.audit=30d"];
    assert_eq!(said(&stage, &prune).await, "removed 0 inbox rows and 1 audit entries\n");
    assert_eq!(acts(&stage, "skip").await, 0);
}
