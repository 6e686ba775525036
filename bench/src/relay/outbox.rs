//! The table that is shipped: how rows get there, and what the server tells of them. A row's number is its id.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep_until};
use xtask::failure::{Explain as _, Outcome};

use crate::server::Database;

/// Rows of a transaction of a backlog.
const SLICE: u64 = 100;
/// Writers that keep a pace; an aggregate is one writer's, so its rows have the order of their numbers.
const WRITERS: u64 = 4;

const COLUMNS: &str = "event_id, event_type, aggregate_type, aggregate_id, payload";
/// 300 bytes for number `n`.
const VALUES: &str = "lpad(to_hex(n), 32, '0')::uuid, 'Deposited', 'Account', (n % 1000)::text,
    convert_to(rpad('{\"sequence\":' || n || ',\"note\":\"', 298, 'n') || '\"}', 'UTF8')";
/// As docs/outbox-table.md tells those who append by plain SQL.
const NOTIFY: &str = "SELECT pg_notify('outbox_events', 'outbox_events'::regclass::oid::text)";

/// The rows of a backlog, a hundred per transaction.
pub(super) async fn fill(database: &Database, rows: Range<u64>) -> Outcome {
    let (first, last) = (rows.start, rows.end.saturating_sub(1));
    let sql = format!(
        "DO $$ BEGIN FOR low IN {first}..{last} BY {SLICE} LOOP
            INSERT INTO outbox_events ({COLUMNS}) SELECT {VALUES}
                FROM generate_series(low, least(low + {SLICE} - 1, {last})) n;
            COMMIT;
        END LOOP; END $$"
    );
    if rows.is_empty() { Ok(()) } else { database.run(&sql).await }
}

/// Appends rows at a pace, each in its transaction; answers when each COMMIT had returned, in seconds since 1970.
pub(super) async fn append(
    url: &str,
    rows: Range<u64>,
    pace: u64,
    notifies: bool,
) -> Outcome<Vec<(u64, f64)>> {
    let start = Instant::now();
    let write = |writer| write(url.to_owned(), rows.clone(), writer, (start, pace), notifies);
    let tasks: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(writer))).collect();
    let mut committed = Vec::new();
    for task in tasks {
        committed.extend(task.await.explain(|| "a writer".to_owned())??);
    }
    committed.sort_unstable_by_key(|(number, _)| *number);
    Ok(committed)
}

async fn write(
    url: String,
    rows: Range<u64>,
    writer: u64,
    (start, pace): (Instant, u64),
    notifies: bool,
) -> Outcome<Vec<(u64, f64)>> {
    let doing = || "an append".to_owned();
    let insert = format!(
        "INSERT INTO outbox_events ({COLUMNS}) SELECT {VALUES} FROM (SELECT $1::bigint) AS one(n)"
    );
    let mut session = PgConnection::connect(&url).await.explain(doing)?;
    let mut committed = Vec::new();
    for number in rows.clone().filter(|number| number % WRITERS == writer) {
        let after = (number - rows.start).saturating_mul(1_000_000_000 / pace);
        sleep_until(start + Duration::from_nanos(after)).await;
        let mut tx = session.begin().await.explain(doing)?;
        let bound = i64::try_from(number).unwrap_or(i64::MAX);
        let appended = sqlx::query(sqlx::AssertSqlSafe(insert.as_str())).bind(bound);
        appended.execute(&mut *tx).await.explain(doing)?;
        if notifies {
            sqlx::query(NOTIFY).execute(&mut *tx).await.explain(doing)?;
        }
        tx.commit().await.explain(doing)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        committed.push((number, now.as_secs_f64()));
    }
    Ok(committed)
}

/// What a team's own table would have: one index of what is unsent.
pub(super) async fn make_plain(database: &Database) -> Outcome {
    database
        .run(
            "DROP INDEX outbox_events_unsent;
             CREATE INDEX outbox_events_unsent ON outbox_events (seq) WHERE sent_at IS NULL",
        )
        .await
}

/// Bytes of the log so far.
pub(super) async fn wal(database: &Database) -> Outcome<f64> {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
    Ok(database.row(sql).await?.get(0))
}

/// Row versions that died so far, whether vacuum has been there or not. A session tells its own when it ends.
pub(super) async fn dead(database: &Database) -> Outcome<f64> {
    let sql = "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables";
    Ok(database.row(sql).await?.get(0))
}

/// Whether the newest rows are marked: a look that costs little.
pub(super) async fn is_marked(database: &Database) -> Outcome<bool> {
    let sql = "SELECT NOT EXISTS (SELECT FROM outbox_events
        WHERE seq > (SELECT max(seq) - 10000 FROM outbox_events) AND sent_at IS NULL)";
    Ok(database.row(sql).await?.get(0))
}

/// Rows without a mark.
pub(super) async fn unmarked(database: &Database) -> Outcome<i64> {
    let sql = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL";
    Ok(database.row(sql).await?.get(0))
}
