//! What PostgreSQL reads for a statement, with each kind of plan.

use std::time::Duration;

use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};

use super::{
    Place, SHOP,
    services::{dropped, session},
};
use crate::{
    feed::postgres::{CLAIM, DUE_DESTINATIONS, UNSENT_BESIDE},
    port::{Parked as _, Shards},
};

/// What a plan has read of the outbox, in rows, and the scans that did.
fn read(plan: &Value, scans: &mut Vec<String>) -> f64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or_default();
    let mut rows = 0.0;
    let relation = plan["Relation Name"].as_str().unwrap_or_default();
    if ["outbox_events", "outbox_parked"].contains(&relation) && plan["Operation"].is_null() {
        let each = number("Actual Rows") + number("Rows Removed by Filter");
        rows += each * number("Actual Loops");
        scans.push(format!("{} {relation} {}: {rows}", plan["Node Type"], plan["Index Name"]));
    }
    let inner = plan["Plans"].as_array().into_iter().flatten();
    rows + inner.map(|plan| read(plan, scans)).sum::<f64>()
}

async fn run(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.unwrap();
}

/// However much waits, a look reads what it takes: with the plan that fits what is asked, and with one for all.
#[tokio::test]
async fn looks_read_no_more_than_they_take_while_a_hundred_thousand_aggregates_wait() {
    let mut place = Place::<Postgres>::new(session().await).await;
    // Behind what was sent, so that a read from the start would read all of that.
    let fill = "INSERT INTO outbox_events
        (event_id, event_type, aggregate_type, aggregate_id, payload, sent_at, parked_at)
        SELECT gen_random_uuid(), 'T', 'A', n::text, 'x', CASE WHEN n <= 100000 THEN now() END,
            CASE WHEN n BETWEEN 100001 AND 200000 THEN now() END FROM generate_series(1, 200300) n;
        INSERT INTO outbox_parked (seq, due_at, state, destination, attempts, aggregate_type, aggregate_id)
        SELECT n, now() + (n * 7919 % 100000 - 50000) * interval '1 second', 'retry', 'shop', 1, 'A', n::text
            FROM generate_series(100001, 200000) n;
        INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id)
        SELECT gen_random_uuid(), 'T', 'A', (100000 + n)::text FROM generate_series(1, 200) n;
        ANALYZE outbox_events, outbox_parked";
    run(&mut place.session, fill).await;
    let (fence, token) = (place.turn.fence, place.turn.token);
    let claim = format!("({fence}, '{token}', 'shop', 200, 1048576, 65535)");
    let dues = format!("({fence}, 65535)");
    let looks = [
        (CLAIM, "(bigint, uuid, text, bigint, bigint, integer)", claim.as_str(), 4_000.0),
        (DUE_DESTINATIONS, "(bigint, integer)", dues.as_str(), 40.0),
        (UNSENT_BESIDE[0][0], "(bigint, bigint)", "(500, 1048576)", 3_000.0),
        (
            UNSENT_BESIDE[0][1],
            "(bigint, bigint, bigint, bigint)",
            "(500, 1048576, 200100, 200200)",
            3_000.0,
        ),
        (UNSENT_BESIDE[1][0], "(bigint, bigint, integer)", "(500, 1048576, 255)", 3_000.0),
        (
            UNSENT_BESIDE[1][1],
            "(bigint, bigint, bigint, bigint, integer)",
            "(500, 1048576, 200100, 200200, 255)",
            3_000.0,
        ),
    ];
    for mode in ["force_custom_plan", "force_generic_plan"] {
        for (text, types, values, most) in looks {
            let prepare = format!("SET plan_cache_mode = {mode}; PREPARE look{types} AS {text}");
            run(&mut place.session, &prepare).await;
            let explain =
                format!("BEGIN; EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE look{values}; ROLLBACK");
            let found =
                sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut place.session).await.unwrap();
            let plan: Value =
                serde_json::from_str(found.try_get_unchecked::<&str, _>(0).unwrap()).unwrap();
            let mut scans = Vec::new();
            let rows = read(&plan[0]["Plan"], &mut scans);
            assert!(rows <= most, "{mode}: {rows} rows are read: {scans:?}\n{text}");
            run(&mut place.session, "DEALLOCATE look").await;
        }
    }
    let due = Postgres::claim(&mut place.session, (place.turn, Shards::ALL), SHOP, 200, 1 << 20)
        .await
        .unwrap();
    let due = due.unwrap();
    assert_eq!(due.len(), 200);
    assert!(due.iter().all(|row| row.claimed && !row.blocked));
    assert_eq!(place.next_due().await, Some(Duration::ZERO));
    dropped(place.session).await;
}
