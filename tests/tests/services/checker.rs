//! The soak's checker is itself shown what it has to find: ten planted anomalies, and a clean table.

use tests::{
    Schema, Services,
    soak::checker::{Anomaly, EFFECTS, Expected, check, glance},
};

const EXPECTED: Expected = Expected { aggregates: 5, per_aggregate: 4 };

/// A table in which every event has its effect once, in sequence.
async fn sound() -> Schema {
    let schema = Services::from_env().schema().await;
    schema.run(EFFECTS).await;
    let fill =
        "INSERT INTO effects (aggregate, n, event_id, pid) SELECT a::text, n, a || '-' || n, 0
        FROM generate_series(1, 4) n, generate_series(0, 4) a ORDER BY n, a";
    schema.run(fill).await;
    schema
}

async fn found(schema: &Schema) -> Vec<Anomaly> {
    let mut found: Vec<Anomaly> =
        check(schema.pool(), EXPECTED).await.unwrap().iter().map(|v| v.anomaly).collect();
    found.sort();
    found.dedup();
    found
}

/// B17: the business table has no unique key, so that a violation can be seen, and is.
#[tokio::test]
async fn every_planted_anomaly_is_found() {
    use Anomaly::{Duplicate, Lost, Reordered, Unknown};
    const ADD: &str = "INSERT INTO effects (aggregate, n, event_id, pid) VALUES";
    let add = |values: &str| format!("{ADD} {values}");
    let swap = "UPDATE effects SET n = 5 - n, event_id = aggregate || '-' || 5 - n
        WHERE aggregate = '2' AND n IN (2, 3)";
    let planted: [(&str, String, &[Anomaly]); 10] = [
        (
            "the last event of an aggregate is missing",
            "DELETE FROM effects WHERE event_id = '3-4'".into(),
            &[Lost],
        ),
        (
            "one in the middle is missing",
            "DELETE FROM effects WHERE event_id = '3-2'".into(),
            &[Lost, Reordered],
        ),
        (
            "a whole aggregate is missing",
            "DELETE FROM effects WHERE aggregate = '0'".into(),
            &[Lost],
        ),
        ("an effect happened twice", add("('1', 4, '1-4', 0)"), &[Duplicate, Reordered]),
        ("twice under another id", add("('1', 4, 'other', 0)"), &[Duplicate, Reordered]),
        ("one id had two effects", add("('9', 1, '1-1', 0)"), &[Duplicate, Unknown]),
        ("two neighbours are swapped", swap.into(), &[Reordered]),
        (
            "the first came last",
            "UPDATE effects SET effect = DEFAULT WHERE event_id = '4-1'".into(),
            &[Reordered],
        ),
        ("an event that was never sent", add("('4', 5, '4-5', 0)"), &[Unknown]),
        ("an aggregate that was never sent", add("('x', 1, 'x-1', 0)"), &[Unknown]),
    ];
    for (what, statement, expected) in planted {
        let schema = sound().await;
        assert_eq!(found(&schema).await, [], "before: {what}");
        schema.run(&statement).await;
        assert_eq!(found(&schema).await, expected, "{what}");
    }
}

/// The quick look during a soak sees doubled effects, too.
#[tokio::test]
async fn a_glance_sees_a_doubled_effect() {
    let schema = sound().await;
    assert!(glance(schema.pool()).await.unwrap().1.is_empty());
    schema.run("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ('1', 4, '1-4', 0)").await;
    let (effects, violations) = glance(schema.pool()).await.unwrap();
    assert_eq!((effects, violations.len()), (21, 1));
}
