//! The guard and savepoints on SQLite in memory.

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use std::{future::Future, task::Poll, time::Duration};

use futures::{StreamExt, TryStreamExt};
use inbox_store::internal::port::StoreFault;
use sqlx::{Connection, Executor, Row, Sqlite, SqliteConnection};

use super::Tx;

/// An open transaction on a table with a unique and a checked column.
async fn opened() -> SqliteConnection {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let table = "CREATE TABLE effects (n INTEGER UNIQUE CHECK (n > 0)); BEGIN IMMEDIATE";
    sqlx::raw_sql(table).execute(&mut conn).await.unwrap();
    conn
}

async fn insert(tx: &mut Tx<'_, Sqlite>, n: i64) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO effects VALUES (?)").bind(n).execute(&mut *tx).await.map(|_| ())
}

async fn count(tx: &mut Tx<'_, Sqlite>) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&mut *tx).await.unwrap()
}

/// Takes a while.
const SLOW: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) \
                    SELECT sum(i) FROM n";

/// Polls a future once and drops it.
async fn poll_once<F: Future>(future: F) {
    let mut future = Box::pin(future);
    std::future::poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn every_way_to_query_works_and_leaves_no_trace() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    for n in 1..=3 {
        insert(&mut tx, n).await.unwrap();
    }
    assert_eq!(count(&mut tx).await, 3);
    let all = "SELECT n FROM effects ORDER BY n";
    let rows: Vec<(i64,)> =
        sqlx::query_as::<_, (i64,)>(all).fetch(&mut tx).try_collect().await.unwrap();
    assert_eq!(rows, [(1,), (2,), (3,)]);
    let rows = sqlx::query(all).fetch_all(&mut tx).await.unwrap();
    assert_eq!(rows[1].get::<i64, _>(0), 2);
    let none = sqlx::query("SELECT 1 WHERE 0").fetch_optional(&mut tx).await.unwrap();
    assert!(none.is_none());
    let missing = sqlx::query("SELECT 1 WHERE 0").fetch_one(&mut tx).await;
    assert!(matches!(missing, Err(sqlx::Error::RowNotFound)), "no failure of the database");
    let several = sqlx::raw_sql("INSERT INTO effects VALUES (4); INSERT INTO effects VALUES (5)");
    several.execute(&mut tx).await.unwrap();
    let prepared = (&mut tx).prepare(sqlx::SqlSafeStr::into_sql_str(all)).await.unwrap();
    let rows = sqlx::Statement::query(&prepared).fetch_all(&mut tx).await.unwrap();
    assert_eq!(rows.len(), 5);
    drop(sqlx::query(all).fetch(&mut tx));
    assert_eq!(tx.first_fault(), None, "a statement that was never sent is no half-dropped one");
    assert!(!tx.running() && !tx.unguarded_used());
}

/// A2, A8
#[tokio::test]
async fn a_swallowed_error_is_remembered_and_nothing_more_is_done() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    insert(&mut tx, 1).await.unwrap();
    let _ = insert(&mut tx, 1).await;
    let seen = tx.first_fault().expect("the unique violation was seen");
    assert_eq!(seen.fault, StoreFault::Statement);
    assert!(seen.error.contains("UNIQUE") && seen.error.ends_with("(code 2067)"), "{}", seen.error);
    let refused = insert(&mut tx, 2).await.unwrap_err().to_string();
    assert!(refused.contains("can only be rolled back") && refused.contains("UNIQUE"), "{refused}");
    assert_eq!(tx.first_fault(), Some(seen), "the first error is kept");
}

/// A2
#[tokio::test]
async fn an_error_inside_a_stream_and_at_prepare_are_seen() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let mut rows = sqlx::raw_sql("SELECT 1; SELECT * FROM nowhere").fetch(&mut tx);
    while let Some(row) = rows.next().await {
        let _ = row;
    }
    drop(rows);
    assert!(tx.first_fault().unwrap().error.contains("nowhere"));
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let text = sqlx::SqlSafeStr::into_sql_str("SELECT * FROM nowhere");
    assert!((&mut tx).prepare(text).await.is_err());
    assert!(tx.first_fault().unwrap().error.contains("nowhere"));
}

/// A6
#[tokio::test]
async fn a_statement_that_is_dropped_half_way_poisons() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    poll_once(sqlx::query(SLOW).execute(&mut tx)).await;
    assert!(tx.running());
    let seen = tx.first_fault().unwrap();
    assert!(seen.error.contains("dropped before it finished"), "{}", seen.error);
    let short = Duration::from_millis(5);
    let refused = tokio::time::timeout(short, insert(&mut tx, 1)).await.expect("refused at once");
    assert!(refused.is_err());
    assert!(tx.running(), "still busy");
}

/// A6
#[tokio::test]
async fn a_stream_that_is_not_read_to_its_end_poisons() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let mut rows = sqlx::raw_sql("SELECT 1 UNION SELECT 2").fetch(&mut tx);
    assert!(rows.next().await.is_some());
    drop(rows);
    assert!(tx.running() && tx.first_fault().is_some());
}

/// A3
#[tokio::test]
async fn a_verb_is_refused_before_it_is_sent_and_poisons() {
    for sql in
        ["COMMIT", "/* x */ rollback", "SELECT 1; COMMIT", "SAVEPOINT a", "PRAGMA synchronous=0"]
    {
        let mut conn = opened().await;
        let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
        insert(&mut tx, 1).await.unwrap();
        let error = sqlx::raw_sql(sql).execute(&mut tx).await.unwrap_err().to_string();
        assert!(error.starts_with("a handler may not run "), "{error}");
        assert_eq!(tx.first_fault().unwrap().error, error);
        sqlx::raw_sql("ROLLBACK").execute(&mut conn).await.expect("the transaction is still open");
    }
}

#[tokio::test]
async fn what_failed_in_a_savepoint_is_forgiven_when_it_is_rolled_back() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    insert(&mut tx, 1).await.unwrap();
    let mut part = tx.savepoint().await.unwrap();
    insert(&mut part, 2).await.unwrap();
    assert!(insert(&mut part, 2).await.is_err());
    assert!(part.first_fault().is_some());
    part.rollback().await.unwrap();
    assert_eq!(tx.first_fault(), None);
    let mut part = tx.savepoint().await.unwrap();
    insert(&mut part, 3).await.unwrap();
    part.release().await.unwrap();
    assert_eq!(count(&mut tx).await, 2);
    assert_eq!(tx.savepoints_taken(), 1);
}

#[tokio::test]
async fn nested_savepoints_are_undone_with_the_outer_one() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let mut outer = tx.savepoint().await.unwrap();
    insert(&mut outer, 1).await.unwrap();
    let mut inner = outer.savepoint().await.unwrap();
    insert(&mut inner, 2).await.unwrap();
    inner.release().await.unwrap();
    let mut inner = outer.savepoint().await.unwrap();
    assert!(insert(&mut inner, 1).await.is_err());
    drop(inner);
    assert!(insert(&mut outer, 4).await.is_err(), "a dropped savepoint poisons");
    outer.rollback().await.unwrap();
    assert_eq!((tx.first_fault(), tx.savepoints_taken()), (None, 0));
    assert_eq!(count(&mut tx).await, 0);
}

#[tokio::test]
async fn a_savepoint_that_is_dropped_undecided_poisons() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    drop(tx.savepoint().await.unwrap());
    assert!(tx.first_fault().unwrap().error.contains("dropped unfinished"));
}

#[tokio::test]
async fn a_savepoint_with_a_failure_in_it_cannot_be_released() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let mut part = tx.savepoint().await.unwrap();
    let _ = insert(&mut part, -1).await;
    let error = part.release().await.unwrap_err().to_string();
    assert!(error.contains("CHECK"), "{error}");
    assert!(tx.first_fault().unwrap().error.contains("CHECK"));
}

/// A6
#[tokio::test]
async fn a_savepoint_does_not_mend_a_half_dropped_statement() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let mut part = tx.savepoint().await.unwrap();
    poll_once(sqlx::query(SLOW).execute(&mut *part)).await;
    assert!(part.rollback().await.is_err());
    assert!(tx.running() && tx.first_fault().is_some());
}

/// G6
#[tokio::test]
async fn savepoints_have_a_limit_that_is_a_conflict() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 30);
    tx.savepoint().await.unwrap().release().await.unwrap();
    let error = tx.savepoint().await.unwrap_err().to_string();
    assert!(error.contains("31 savepoints"), "{error}");
    assert_eq!(tx.first_fault().unwrap().fault, StoreFault::Conflict);
}

#[tokio::test]
async fn an_undone_savepoint_does_not_count() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    for _ in 0..40 {
        tx.savepoint().await.unwrap().rollback().await.unwrap();
    }
    assert_eq!((tx.first_fault(), tx.savepoints_taken()), (None, 0));
}

#[tokio::test]
async fn the_lent_connection_is_noted_but_not_watched() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let _ = sqlx::query("SELECT * FROM nowhere").execute(tx.unguarded().await.unwrap()).await;
    assert!(tx.unguarded_used());
    assert_eq!(tx.first_fault(), None);
}
