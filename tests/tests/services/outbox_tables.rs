//! The tables of the outbox: made once, by anybody, where the caller works, and gone without a trace.

use std::sync::Arc;

use outbox_core::{migrate, print, schema_newest, schema_version};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, Sqlite, SqliteConnection};
use tests::Services;

#[tokio::test]
async fn the_tables_are_made_once_and_printed_as_they_are_made() {
    let services = Services::from_env();
    let (schema, printed) = (services.schema().await, services.schema().await);
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    assert_eq!(schema_version(&mut conn).await.unwrap(), None);
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3]);
    assert_eq!(migrate(&mut conn).await.unwrap(), [0; 0]);
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(schema_newest::<Postgres>()));
    let mut conn = PgConnection::connect(&printed.url()).await.unwrap();
    printed.run(&print::<Postgres>()).await;
    assert_eq!(migrate(&mut conn).await.unwrap(), [0; 0]);

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    assert_eq!(schema_version(&mut conn).await.unwrap(), None);
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3]);
    assert_eq!(migrate(&mut conn).await.unwrap(), [0; 0]);
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(schema_newest::<Sqlite>()));
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(print::<Sqlite>())).execute(&mut conn).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [0; 0]);
}

#[tokio::test]
async fn processes_that_migrate_at_the_same_time_make_the_tables_once() {
    let schema = Arc::new(Services::from_env().schema().await);
    let one = |url: String| async move {
        let mut conn = PgConnection::connect(&url).await.unwrap();
        migrate(&mut conn).await.unwrap().len()
    };
    let all: Vec<_> = (0..8).map(|_| tokio::spawn(one(schema.url()))).collect();
    let mut applied = 0;
    for task in all {
        applied += task.await.unwrap();
    }
    assert_eq!(applied, 3);
}

#[tokio::test]
async fn a_migration_in_an_open_transaction_goes_with_it_and_on_a_read_only_session_it_works() {
    let schema = Services::from_env().schema().await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(migrate(&mut *tx).await.unwrap(), [1, 2, 3]);
    tx.rollback().await.unwrap();
    assert_eq!(schema_version(&mut conn).await.unwrap(), None);
    sqlx::raw_sql("SET default_transaction_read_only = on").execute(&mut conn).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3]);

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(migrate(&mut *tx).await.unwrap(), [1, 2, 3]);
    tx.rollback().await.unwrap();
    assert_eq!(schema_version(&mut conn).await.unwrap(), None);
}

#[tokio::test]
async fn the_outbox_of_another_schema_is_not_ours() {
    let services = Services::from_env();
    let (ours, theirs) = (services.schema().await, services.schema().await);
    let mut conn = PgConnection::connect(&theirs.url()).await.unwrap();
    migrate(&mut conn).await.unwrap();
    let path = format!("SET search_path = {}, {}", ours.name(), theirs.name());
    sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut conn).await.unwrap();
    assert_eq!(schema_version(&mut conn).await.unwrap(), None);
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn the_way_back_leaves_nothing() {
    // What waits for another attempt is unsent again, and what is held behind it is asked for.
    const ROWS: &str = "INSERT INTO outbox_events
        (event_id, event_type, aggregate_type, aggregate_id, failed_at, error, retry_at, held)
        SELECT 'ID', 'T', 'A', '1', TIME, '503', TIME, false UNION ALL
        SELECT 'ID', 'T', 'A', '1', TIME, NULL, NULL, true UNION ALL
        SELECT 'ID', 'T', 'A', '2', TIME, 'x', NULL, false";
    const UNSENT: &str =
        "SELECT count(*) FROM outbox_events WHERE failed_at IS NULL AND error IS NULL";
    const ASKED: &str = "SELECT count(*) FROM outbox_releases WHERE aggregate_id = '1'";
    let schema = Services::from_env().schema().await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    migrate(&mut conn).await.unwrap();
    let rows = ROWS.replace("'ID'", "gen_random_uuid()").replace("TIME", "now()");
    schema.run(&rows).await;
    let last = include_str!("../../../migrations/postgres/outbox/0003_delivery.down.sql");
    let second = include_str!("../../../migrations/postgres/outbox/0002_relay.down.sql");
    schema.run(last).await;
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(2));
    assert_eq!((schema.number(UNSENT).await, schema.number(ASKED).await), (1, 1));
    schema.run(second).await;
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(1));
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3]);
    schema.run(last).await;
    schema.run(second).await;
    schema.run(include_str!("../../../migrations/postgres/outbox/0001_outbox.down.sql")).await;
    let left = format!(
        "SELECT count(*) FROM pg_class WHERE relnamespace = '{}'::regnamespace",
        schema.name()
    );
    assert_eq!(schema.number(&left).await, 0);
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3]);

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrate(&mut conn).await.unwrap();
    let rows = ROWS.replace("'ID'", "randomblob(16)").replace("TIME", "1");
    sqlx::raw_sql(AssertSqlSafe(rows)).execute(&mut conn).await.unwrap();
    let last = include_str!("../../../migrations/sqlite/outbox/0003_delivery.down.sql");
    sqlx::raw_sql(last).execute(&mut conn).await.unwrap();
    for number in [UNSENT, ASKED] {
        let found: i64 = sqlx::query_scalar(number).fetch_one(&mut conn).await.unwrap();
        assert_eq!(found, 1, "{number}");
    }
    let second = include_str!("../../../migrations/sqlite/outbox/0002_relay.down.sql");
    sqlx::raw_sql(second).execute(&mut conn).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3]);
    sqlx::raw_sql(last).execute(&mut conn).await.unwrap();
    sqlx::raw_sql(second).execute(&mut conn).await.unwrap();
    let down = include_str!("../../../migrations/sqlite/outbox/0001_outbox.down.sql");
    sqlx::raw_sql(down).execute(&mut conn).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3]);
}

/// A second row of a key is refused while the first is there; rows without one are not looked at.
#[tokio::test]
async fn a_key_is_taken_once() {
    const ROW: &str = "INSERT INTO outbox_events
        (event_id, event_type, aggregate_type, aggregate_id, dedup_key) VALUES (ID, 'T', 'A', '1', KEY)";
    let schema = Services::from_env().schema().await;
    let mut postgres = PgConnection::connect(&schema.url()).await.unwrap();
    migrate(&mut postgres).await.unwrap();
    let mut sqlite = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrate(&mut sqlite).await.unwrap();
    for (key, taken) in
        [("'a'", true), ("'b'", true), ("NULL", true), ("NULL", true), ("'a'", false)]
    {
        let row = ROW.replace("KEY", key);
        let text = AssertSqlSafe(row.replace("(ID", "(gen_random_uuid()"));
        assert_eq!(sqlx::raw_sql(text).execute(&mut postgres).await.is_ok(), taken, "{key}");
        let text = AssertSqlSafe(row.replace("(ID", "(randomblob(16)"));
        assert_eq!(sqlx::raw_sql(text).execute(&mut sqlite).await.is_ok(), taken, "{key}");
    }
    schema.run("DELETE FROM outbox_events").await;
    schema.run(&ROW.replace("(ID", "(gen_random_uuid()").replace("KEY", "'a'")).await;
}

/// What a relay asks for again and again costs what waits, not what has been sent.
#[tokio::test]
async fn the_scan_for_what_waits_uses_its_own_index() {
    let schema = Services::from_env().schema().await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    migrate(&mut conn).await.unwrap();
    schema
        .run(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, sent_at)
             SELECT gen_random_uuid(), 'T', 'A', n::text, CASE WHEN n <= 19900 THEN now() END
             FROM generate_series(1, 20000) n; ANALYZE outbox_events",
        )
        .await;
    let scan = "SELECT * FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 500";
    let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!("EXPLAIN {scan}")))
        .fetch_all(&mut conn)
        .await
        .unwrap();
    assert!(plan.join("\n").contains("outbox_events_unsent"), "{plan:#?}");

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrate(&mut conn).await.unwrap();
    let plan: Vec<(i64, i64, i64, String)> =
        sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {scan}")))
            .fetch_all(&mut conn)
            .await
            .unwrap();
    assert!(plan.iter().any(|row| row.3.contains("outbox_events_unsent")), "{plan:?}");
}

/// A row of before that nobody can send keeps no migration up, and a relay can mark it in every way.
#[tokio::test]
async fn headers_of_before_are_left_as_they_are() {
    const ROW: &str =
        "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, headers)
        VALUES ('\\x00112233445566778899aabbccddeeff', 'T', 'A', '1', 'no json')";
    const MARKS: &str = "UPDATE outbox_events SET failed_at = 1, held = 1; UPDATE outbox_events SET failed_at = NULL, held = 0;
        UPDATE outbox_events SET sent_at = 1";
    let schema = Services::from_env().schema().await;
    schema.run(include_str!("../../../migrations/postgres/outbox/0001_outbox.sql")).await;
    schema.run(&ROW.replace("\\x", "")).await;
    schema.run("INSERT INTO outbox_schema_versions (version) VALUES (1)").await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3]);
    let marks = MARKS.replace("_at = 1", "_at = now()").replace("= 1", "= true");
    schema.run(&marks.replace("= 0", "= false")).await;

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let first = include_str!("../../../migrations/sqlite/outbox/0001_outbox.sql");
    sqlx::raw_sql(first).execute(&mut conn).await.unwrap();
    let row = ROW.replace("'\\x", "x'");
    sqlx::raw_sql(AssertSqlSafe(row)).execute(&mut conn).await.unwrap();
    let version = "INSERT INTO outbox_schema_versions (version) VALUES (1)";
    sqlx::raw_sql(version).execute(&mut conn).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3]);
    sqlx::raw_sql(MARKS).execute(&mut conn).await.unwrap();
}
