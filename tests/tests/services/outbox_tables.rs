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
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);
    assert_eq!(migrate(&mut conn).await.unwrap(), [0; 0]);
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(schema_newest::<Postgres>()));
    let mut conn = PgConnection::connect(&printed.url()).await.unwrap();
    printed.run(&print::<Postgres>()).await;
    assert_eq!(migrate(&mut conn).await.unwrap(), [0; 0]);

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    assert_eq!(schema_version(&mut conn).await.unwrap(), None);
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);
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
    assert_eq!(applied, 4);
}

#[tokio::test]
async fn a_migration_in_an_open_transaction_goes_with_it_and_on_a_read_only_session_it_works() {
    let schema = Services::from_env().schema().await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(migrate(&mut *tx).await.unwrap(), [1, 2, 3, 4]);
    tx.rollback().await.unwrap();
    assert_eq!(schema_version(&mut conn).await.unwrap(), None);
    sqlx::raw_sql("SET default_transaction_read_only = on").execute(&mut conn).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    assert_eq!(migrate(&mut *tx).await.unwrap(), [1, 2, 3, 4]);
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
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);
}

/// The ways back to each version of the tables, from the newest on.
const DOWN_POSTGRES: [&str; 4] = [
    include_str!("../../../migrations/postgres/outbox/0004_parked.down.sql"),
    include_str!("../../../migrations/postgres/outbox/0003_delivery.down.sql"),
    include_str!("../../../migrations/postgres/outbox/0002_relay.down.sql"),
    include_str!("../../../migrations/postgres/outbox/0001_outbox.down.sql"),
];
const DOWN_SQLITE: [&str; 4] = [
    include_str!("../../../migrations/sqlite/outbox/0004_parked.down.sql"),
    include_str!("../../../migrations/sqlite/outbox/0003_delivery.down.sql"),
    include_str!("../../../migrations/sqlite/outbox/0002_relay.down.sql"),
    include_str!("../../../migrations/sqlite/outbox/0001_outbox.down.sql"),
];

/// A statement of both databases: TIME is a moment, ID an event's id, NO is false and YES true.
fn of_postgres(text: &str) -> String {
    let text = text
        .replace("ID", "gen_random_uuid()")
        .replace("TIME", "'2026-01-02 00:00:00Z'::timestamptz");
    text.replace("NO", "false").replace("YES", "true")
}

fn of_sqlite(text: &str) -> String {
    let text = text.replace("ID", "randomblob(16)").replace("TIME", "1767312000000");
    text.replace("NO", "0").replace("YES", "1")
}

async fn run_sqlite(conn: &mut SqliteConnection, text: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(conn).await;
    done.unwrap_or_else(|error| panic!("{error}: {text}"));
}

/// The one column of a query, in both databases.
async fn columns(
    postgres: &mut PgConnection,
    sqlite: &mut SqliteConnection,
    sql: &str,
) -> [Vec<String>; 2] {
    let of_postgres = sqlx::query_scalar(AssertSqlSafe(of_postgres(sql))).fetch_all(postgres);
    let of_sqlite = sqlx::query_scalar(AssertSqlSafe(of_sqlite(sql))).fetch_all(sqlite);
    [of_postgres.await.unwrap(), of_sqlite.await.unwrap()]
}

#[tokio::test]
async fn the_way_back_leaves_nothing() {
    // What waits for another attempt is unsent again, and what is behind it is asked for.
    const ROWS: &str = "INSERT INTO outbox_events
        (event_id, event_type, aggregate_type, aggregate_id, failed_at, error, retry_at, held)
        SELECT ID, 'T', 'A', '1', TIME, '503', TIME, NO UNION ALL
        SELECT ID, 'T', 'A', '1', TIME, NULL, NULL, YES UNION ALL
        SELECT ID, 'T', 'A', '2', TIME, 'x', NULL, NO";
    const UNSENT: &str =
        "SELECT count(*) FROM outbox_events WHERE failed_at IS NULL AND error IS NULL";
    const ASKED: &str = "SELECT count(*) FROM outbox_releases WHERE aggregate_id = '1'";
    let schema = Services::from_env().schema().await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    migrate(&mut conn).await.unwrap();
    let [last, third, second, first] = DOWN_POSTGRES;
    schema.run(last).await;
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(3));
    schema.run(&of_postgres(ROWS)).await;
    schema.run(third).await;
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(2));
    assert_eq!((schema.number(UNSENT).await, schema.number(ASKED).await), (1, 1));
    schema.run(second).await;
    assert_eq!(schema_version(&mut conn).await.unwrap(), Some(1));
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3, 4]);
    for down in [last, third, second, first] {
        schema.run(down).await;
    }
    let left = format!(
        "SELECT count(*) FROM pg_class WHERE relnamespace = '{}'::regnamespace",
        schema.name()
    );
    assert_eq!(schema.number(&left).await, 0);
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrate(&mut conn).await.unwrap();
    let [last, third, second, first] = DOWN_SQLITE;
    run_sqlite(&mut conn, last).await;
    run_sqlite(&mut conn, &of_sqlite(ROWS)).await;
    run_sqlite(&mut conn, third).await;
    for number in [UNSENT, ASKED] {
        let found: i64 = sqlx::query_scalar(number).fetch_one(&mut conn).await.unwrap();
        assert_eq!(found, 1, "{number}");
    }
    run_sqlite(&mut conn, second).await;
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3, 4]);
    for down in [last, third, second, first] {
        run_sqlite(&mut conn, down).await;
    }
    let left = "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'";
    let left: i64 = sqlx::query_scalar(left).fetch_one(&mut conn).await.unwrap();
    assert_eq!(left, 0);
    assert_eq!(migrate(&mut conn).await.unwrap(), [1, 2, 3, 4]);
}

/// Version 4 keeps all that version 3 says of a row, and the way back gives it back.
#[tokio::test]
async fn each_kind_of_row_of_version_3_keeps_its_state_in_version_4_and_back() {
    // One row of each kind, by its type.
    const ROWS: &str = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, sent_at,
        failed_at, error, held, waits_for, attempts, retry_at, deliver_after, discarded_at, discarded_by) VALUES
        (ID, 'unsent', 'A', 'a', NULL, NULL, NULL, NO, NULL, 0, NULL, NULL, NULL, NULL),
        (ID, 'sent', 'A', 'b', TIME, NULL, NULL, NO, NULL, 2, NULL, NULL, NULL, NULL),
        (ID, 'failed', 'A', 'c', NULL, TIME, '404', NO, NULL, 3, NULL, NULL, NULL, NULL),
        (ID, 'behind', 'A', 'c', NULL, TIME, NULL, YES, NULL, 0, NULL, NULL, NULL, NULL),
        (ID, 'retry', 'A', 'd', NULL, TIME, '503', NO, NULL, 2, TIME, NULL, NULL, NULL),
        (ID, 'scheduled', 'A', 'e', NULL, TIME, NULL, NO, NULL, 0, TIME, TIME, NULL, NULL),
        (ID, 'topic', 'A', 'f', NULL, TIME, 'no topic', NO, 'shop', 0, NULL, NULL, NULL, NULL),
        (ID, 'destination', 'A', 'g', NULL, TIME, 'down', NO, 'destination shop', 1, NULL, NULL, NULL, NULL),
        (ID, 'discarded', 'A', 'h', NULL, TIME, '410', NO, NULL, 4, NULL, NULL, TIME, 'ada')";
    const PARKED: &str = "SELECT e.event_type || ' ' || p.state || ' ' || p.destination || ' ' || p.attempts || ' '
            || coalesce(p.error, '-') || CASE WHEN p.due_at IS NULL THEN '' WHEN p.due_at = TIME THEN ' then'
                ELSE ' now' END || CASE WHEN p.parked_at = TIME THEN '' ELSE ' late' END
        FROM outbox_parked p JOIN outbox_events e USING (seq, aggregate_type, aggregate_id)
        WHERE claimed_by IS NULL ORDER BY seq";
    const MARKS: &str = "SELECT event_type || CASE WHEN sent_at = TIME THEN ' sent' ELSE '' END
            || CASE WHEN parked_at = TIME THEN ' parked' ELSE '' END || CASE WHEN deliver_after = TIME THEN ' later' ELSE '' END
            || CASE WHEN discarded_at = TIME THEN ' by ' || discarded_by ELSE '' END
        FROM outbox_events ORDER BY seq";
    const BACK: &str = "SELECT event_type || ' ' || attempts || CASE WHEN sent_at = TIME THEN ' sent' ELSE '' END
            || CASE WHEN failed_at = TIME THEN ' failed' ELSE '' END || CASE WHEN held THEN ' held' ELSE '' END
            || CASE WHEN retry_at = TIME THEN ' retry' ELSE '' END || coalesce(' ' || waits_for, '')
            || CASE WHEN deliver_after = TIME THEN ' later' ELSE '' END || coalesce(' ' || error, '')
            || CASE WHEN discarded_at = TIME THEN ' by ' || discarded_by ELSE '' END
        FROM outbox_events ORDER BY seq";
    let schema = Services::from_env().schema().await;
    let mut postgres = PgConnection::connect(&schema.url()).await.unwrap();
    migrate(&mut postgres).await.unwrap();
    let mut sqlite = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrate(&mut sqlite).await.unwrap();
    schema.run(DOWN_POSTGRES[0]).await;
    run_sqlite(&mut sqlite, DOWN_SQLITE[0]).await;
    schema.run(&of_postgres(ROWS)).await;
    run_sqlite(&mut sqlite, &of_sqlite(ROWS)).await;
    assert_eq!(migrate(&mut postgres).await.unwrap(), [4]);
    assert_eq!(migrate(&mut sqlite).await.unwrap(), [4]);

    let parked = [
        "failed parked kafka 3 404",
        "behind behind kafka 0 -",
        "retry retry kafka 2 503 then",
        "scheduled scheduled kafka 0 - then",
        "topic waiting kafka:shop 0 no topic now",
        // A relay claims it under this name, and finds by its routes where it goes.
        "destination waiting kafka 1 down now",
    ];
    let marks = [
        "unsent",
        "sent sent",
        "failed parked",
        "behind parked",
        "retry parked",
        "scheduled parked later",
        "topic parked",
        "destination parked",
        "discarded parked by ada",
    ];
    for (sql, wanted) in [(PARKED, &parked[..]), (MARKS, &marks[..])] {
        let found = columns(&mut postgres, &mut sqlite, sql).await;
        assert_eq!(found, [wanted; 2], "{sql}");
    }

    // A row that may go at once is unsent again, and what is behind it is asked for.
    let ready = "UPDATE outbox_parked SET state = 'ready', due_at = TIME, attempts = 0
        WHERE seq = (SELECT seq FROM outbox_events WHERE event_type = 'failed')";
    schema.run(&of_postgres(ready)).await;
    run_sqlite(&mut sqlite, &of_sqlite(ready)).await;
    schema.run(DOWN_POSTGRES[0]).await;
    run_sqlite(&mut sqlite, DOWN_SQLITE[0]).await;
    let back = [
        "unsent 0",
        "sent 0 sent",
        "failed 0",
        "behind 0 failed held",
        "retry 2 failed retry 503",
        "scheduled 0 failed retry later",
        "topic 0 failed shop no topic",
        "destination 1 failed destination kafka down",
        "discarded 0 failed by ada",
    ];
    assert_eq!(columns(&mut postgres, &mut sqlite, BACK).await, [&back[..]; 2]);
    let asked = "SELECT aggregate_type || '/' || aggregate_id FROM outbox_releases";
    assert_eq!(columns(&mut postgres, &mut sqlite, asked).await, [["A/c"]; 2]);
    assert_eq!(schema_version(&mut postgres).await.unwrap(), Some(3));
    assert_eq!(schema_version(&mut sqlite).await.unwrap(), Some(3));
    assert_eq!(migrate(&mut postgres).await.unwrap(), [4]);
    assert_eq!(migrate(&mut sqlite).await.unwrap(), [4]);
}

/// What is parked is counted by its state, and a time belongs to what goes by itself.
#[tokio::test]
async fn a_row_is_parked_in_one_state_with_a_time_or_without_one() {
    const ROW: &str =
        "INSERT INTO outbox_parked (seq, aggregate_type, aggregate_id, destination, state, due_at)
        VALUES (NUMBER, 'A', '1', 'shop', 'STATE', DUE)";
    let schema = Services::from_env().schema().await;
    let mut postgres = PgConnection::connect(&schema.url()).await.unwrap();
    migrate(&mut postgres).await.unwrap();
    let mut sqlite = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrate(&mut sqlite).await.unwrap();
    let with_time = ["ready", "scheduled", "retry", "waiting"];
    let cases = with_time.map(|state| (state, true)).into_iter();
    let cases =
        cases.chain([("behind", false), ("parked", false), ("other", true), ("other", false)]);
    for (number, (state, has_time)) in (1..).zip(cases) {
        for due in ["NULL", "TIME"] {
            let row = ROW.replace("NUMBER", &format!("{number}")).replace("STATE", state);
            let row = row.replace("DUE", due);
            let taken = state != "other" && (due == "TIME") == has_time;
            let text = AssertSqlSafe(of_postgres(&row));
            let there = sqlx::raw_sql(text).execute(&mut postgres).await.is_ok();
            assert_eq!(there, taken, "{row}");
            let text = AssertSqlSafe(of_sqlite(&row));
            let there = sqlx::raw_sql(text).execute(&mut sqlite).await.is_ok();
            assert_eq!(there, taken, "{row}");
        }
    }
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
    let scan = "SELECT * FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY seq LIMIT 500";
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
    const MARKS: &str =
        "UPDATE outbox_events SET parked_at = 1; UPDATE outbox_events SET parked_at = NULL;
        UPDATE outbox_events SET sent_at = 1";
    let schema = Services::from_env().schema().await;
    schema.run(include_str!("../../../migrations/postgres/outbox/0001_outbox.sql")).await;
    schema.run(&ROW.replace("\\x", "")).await;
    schema.run("INSERT INTO outbox_schema_versions (version) VALUES (1)").await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3, 4]);
    schema.run(&MARKS.replace("_at = 1", "_at = now()")).await;

    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let first = include_str!("../../../migrations/sqlite/outbox/0001_outbox.sql");
    sqlx::raw_sql(first).execute(&mut conn).await.unwrap();
    let row = ROW.replace("'\\x", "x'");
    sqlx::raw_sql(AssertSqlSafe(row)).execute(&mut conn).await.unwrap();
    let version = "INSERT INTO outbox_schema_versions (version) VALUES (1)";
    sqlx::raw_sql(version).execute(&mut conn).await.unwrap();
    assert_eq!(migrate(&mut conn).await.unwrap(), [2, 3, 4]);
    sqlx::raw_sql(MARKS).execute(&mut conn).await.unwrap();
}
