//! Events that are the only one of their key, and events that are delivered late, as `append` writes them.

use std::time::Duration;

use outbox_core::{Aggregate, OutboxEvent, append, append_all, migrate};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tests::{Schema, Services};
use tokio::time::timeout;

/// Long enough for a statement that nobody holds up.
const HELD_UP: Duration = Duration::from_millis(300);
const KEYS: &str = "SELECT event_type, dedup_key FROM outbox_events ORDER BY seq";

async fn postgres() -> (Schema, PgConnection) {
    let schema = Services::from_env().schema().await;
    let mut conn = PgConnection::connect(&schema.url()).await.unwrap();
    migrate(&mut conn).await.unwrap();
    (schema, conn)
}

async fn sqlite() -> SqliteConnection {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    migrate(&mut conn).await.unwrap();
    conn
}

fn event(name: &str) -> OutboxEvent {
    OutboxEvent::new(name, &Aggregate::new("Customer", "7").unwrap(), &name).unwrap()
}

fn keyed(name: &str, key: &str) -> OutboxEvent {
    event(name).with_dedup_key(key).unwrap()
}

/// What is to be there after [`appends`].
const EXPECTED: [(&str, Option<&str>); 4] =
    [("A", Some("welcome/7")), ("B", None), ("D", Some("welcome/8")), ("F", Some("A"))];

/// One key after the other, in statements of their own and in one.
macro_rules! appends {
    ($conn:expr) => {{
        let first = append($conn, &keyed("A", "welcome/7")).await.unwrap();
        assert_eq!((first.rows(), first.left_out()), (1, &[] as &[usize]));
        let second = append($conn, &keyed("Other", "welcome/7")).await.unwrap();
        assert_eq!((second.rows(), second.left_out()), (0, &[0_usize][..]));
        let many = [
            event("B"),
            keyed("C", "welcome/7"),
            keyed("D", "welcome/8").with_deliver_after_ms(17).unwrap(),
            keyed("E", "welcome/8"),
            keyed("F", "A"),
        ];
        let appended = append_all($conn, &many).await.unwrap();
        assert_eq!((appended.rows(), appended.left_out()), (3, &[1_usize, 3][..]));
        assert_eq!(append_all($conn, &many[1..2]).await.unwrap().left_out(), [0]);
        assert_eq!(append($conn, &event("plain")).await.unwrap().rows(), 1);
        sqlx::query("DELETE FROM outbox_events WHERE event_type = 'plain'")
            .execute($conn)
            .await
            .unwrap();
    }};
}

#[tokio::test]
async fn of_events_with_one_key_the_first_is_there_and_the_answer_says_so() {
    let (_schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    appends!(&mut postgres);
    appends!(&mut sqlite);
    type Rows = Vec<(String, Option<String>)>;
    let rows: Rows = sqlx::query_as(KEYS).fetch_all(&mut postgres).await.unwrap();
    let again: Rows = sqlx::query_as(KEYS).fetch_all(&mut sqlite).await.unwrap();
    let expected = EXPECTED.map(|(name, key)| (name.to_owned(), key.map(str::to_owned)));
    assert_eq!((rows.as_slice(), again.as_slice()), (&expected[..], &expected[..]));
}

/// As long as the row is kept, whether it was sent or not.
#[tokio::test]
async fn a_key_is_new_again_when_its_row_is_removed() {
    let (schema, mut conn) = postgres().await;
    let mut sqlite = sqlite().await;
    for (change, rows) in
        [("UPDATE outbox_events SET sent_at = created_at", 0), ("DELETE FROM outbox_events", 1)]
    {
        append(&mut conn, &keyed("A", "k")).await.unwrap();
        append(&mut sqlite, &keyed("A", "k")).await.unwrap();
        schema.run(change).await;
        sqlx::raw_sql(AssertSqlSafe(change)).execute(&mut sqlite).await.unwrap();
        assert_eq!(append(&mut conn, &keyed("B", "k")).await.unwrap().rows(), rows, "{change}");
        assert_eq!(append(&mut sqlite, &keyed("B", "k")).await.unwrap().rows(), rows, "{change}");
    }
}

#[tokio::test]
async fn who_appends_a_key_waits_for_a_transaction_that_has_it() {
    for (commits, rows) in [(true, 0), (false, 1)] {
        let (schema, mut conn) = postgres().await;
        let mut tx = conn.begin().await.unwrap();
        append(&mut *tx, &keyed("A", "k")).await.unwrap();
        let mut other = PgConnection::connect(&schema.url()).await.unwrap();
        let mut second =
            tokio::spawn(async move { append(&mut other, &keyed("B", "k")).await.unwrap().rows() });
        assert!(timeout(HELD_UP, &mut second).await.is_err(), "it knows nothing yet");
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        assert_eq!(second.await.unwrap(), rows);
        assert_eq!(schema.number("SELECT count(*) FROM outbox_events").await, 1);
    }
}

/// Only the key's conflict leaves an event out: a number that is taken, as after a logical copy, would lose it.
#[tokio::test]
async fn another_conflict_stays_an_error() {
    let (schema, mut conn) = postgres().await;
    append(&mut conn, &event("A")).await.unwrap();
    schema.run("ALTER TABLE outbox_events ALTER COLUMN seq RESTART WITH 1").await;
    let refused = append(&mut conn, &keyed("B", "k")).await.unwrap_err().to_string();
    assert!(refused.contains("outbox_events_pkey"), "{refused}");
}

/// Something in the database swallows rows: that is told of each event that has no key.
#[tokio::test]
async fn an_event_without_a_key_is_never_left_out() {
    let (schema, mut conn) = postgres().await;
    let mut sqlite = sqlite().await;
    schema
        .run(
            "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
            CREATE TRIGGER swallow BEFORE INSERT ON outbox_events FOR EACH ROW WHEN (NEW.dedup_key IS NULL)
                EXECUTE FUNCTION swallow()",
        )
        .await;
    let swallow =
        "CREATE TRIGGER swallow BEFORE INSERT ON outbox_events WHEN NEW.dedup_key IS NULL BEGIN
        SELECT RAISE(IGNORE); END";
    sqlx::raw_sql(swallow).execute(&mut sqlite).await.unwrap();
    let events = [keyed("A", "k"), event("B")];
    for refused in [append_all(&mut conn, &events).await, append_all(&mut sqlite, &events).await] {
        let sentence = refused.unwrap_err().to_string();
        assert!(sentence.contains("1 of 2 events were written to outbox_events"), "{sentence}");
    }
}

#[tokio::test]
async fn the_time_of_delivery_is_kept_to_the_millisecond() {
    const POSTGRES: &str =
        "SELECT (extract(epoch FROM deliver_after) * 1000)::bigint FROM outbox_events ORDER BY seq";
    const SQLITE: &str = "SELECT deliver_after FROM outbox_events ORDER BY seq";
    let (_schema, mut postgres) = postgres().await;
    let mut sqlite = sqlite().await;
    sqlx::raw_sql("SET TIME ZONE 'Europe/Berlin'").execute(&mut postgres).await.unwrap();
    let times = [None, Some(0), Some(1), Some(1_764_000_000_123), Some(253_402_300_799_999)];
    let late = times.map(|time| match time {
        Some(time) => event("A").with_deliver_after_ms(time).unwrap(),
        None => event("A"),
    });
    append_all(&mut postgres, &late).await.unwrap();
    append_all(&mut sqlite, &late).await.unwrap();
    let found: Vec<Option<i64>> =
        sqlx::query_scalar(POSTGRES).fetch_all(&mut postgres).await.unwrap();
    let again: Vec<Option<i64>> = sqlx::query_scalar(SQLITE).fetch_all(&mut sqlite).await.unwrap();
    assert_eq!((found.as_slice(), again.as_slice()), (&times[..], &times[..]));
}

/// Who may insert, and nothing else, appends events that are late: only a key takes more.
#[tokio::test]
async fn a_late_event_takes_no_right_to_read() {
    let (schema, mut conn) = postgres().await;
    let mut tx = conn.begin().await.unwrap();
    let role = format!(
        "CREATE ROLE late; GRANT USAGE ON SCHEMA {} TO late; GRANT INSERT ON outbox_events TO late; SET ROLE late",
        schema.name()
    );
    sqlx::raw_sql(AssertSqlSafe(role)).execute(&mut *tx).await.unwrap();
    let late = event("A").with_deliver_after_ms(1).unwrap();
    append(&mut *tx, &late).await.unwrap();
    let refused = append(&mut *tx, &keyed("B", "k")).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied"), "{refused}");
}
