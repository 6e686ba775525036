//! The database of the chaos: a server behind an address that stays, whatever server is behind it.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::{Outbox, OwnPostgres, Proxy, SOON, Schema, StopMode};

/// Little log is kept: a copy of the cluster has all of it.
const SETTINGS: &str = "max_wal_size = 96MB\nmin_wal_size = 32MB\nwal_recycle = off\n";
/// Rows that wait, or are parked.
pub(super) const UNSENT: &str = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL";

/// The server that is the primary now, and the address that leads to it.
pub(super) struct Database {
    server: OwnPostgres,
    proxy: Proxy,
}

/// A replica that takes nothing more: what is committed from now on dies with the primary.
pub(super) struct Lagging {
    replica: OwnPostgres,
}

impl Database {
    pub(super) async fn start() -> Self {
        let server = OwnPostgres::start_with(SETTINGS).await;
        let proxy = Proxy::start(&server.address()).await;
        Self { server, proxy }
    }

    /// A schema at the address that stays.
    pub(super) async fn schema(&self) -> Schema {
        Schema::create(&self.proxy.url(&self.server.url())).await
    }

    /// A new replica of the primary.
    pub(super) async fn replica(&self) -> OwnPostgres {
        self.server.replica().await
    }

    /// Cuts a replica off once it has all that was committed before this call.
    pub(super) async fn cut_off(&self, replica: OwnPostgres) -> Lagging {
        replica.catch_up_with(&self.server).await;
        replica.freeze().await;
        Lagging { replica }
    }

    /// The primary dies for good, and the replica takes its place. With `early` the address leads to the
    /// replica before it takes writes.
    pub(super) async fn fail_over(&mut self, lagging: Lagging, early: bool) {
        tokio::task::block_in_place(|| self.server.stop(StopMode::Immediate));
        let replica = lagging.replica;
        if early {
            self.proxy.lead_to(&replica.address());
        }
        replica.promote().await;
        self.proxy.lead_to(&replica.address());
        let old = std::mem::replace(&mut self.server, replica);
        // Its cluster is removed: nobody starts it again.
        tokio::task::block_in_place(|| drop(old));
    }

    /// Stops the server, copies its cluster, and starts it again.
    pub(super) fn back_up(&self) -> std::path::PathBuf {
        tokio::task::block_in_place(|| {
            self.server.stop(StopMode::Fast);
            let copy = self.server.back_up();
            self.server.start_again();
            copy
        })
    }

    /// Stops the server and starts it on the copy.
    pub(super) fn restore(&self, copy: &std::path::Path, mode: StopMode) {
        tokio::task::block_in_place(|| {
            self.server.stop(mode);
            self.server.put_back(copy);
            self.server.start_again();
        });
    }
}

/// Holds up every mark, and every sign of life, until the connection ends: what is sent meanwhile is not marked.
pub(super) async fn hold_marks(outbox: &Outbox) -> PgConnection {
    let mut holder = PgConnection::connect(&outbox.schema.url()).await.expect("the database");
    let lock = "BEGIN; SELECT FROM outbox_relays FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut holder).await.expect("a lock");
    holder
}

/// What the chaos needs besides the tables: with the index it may ask often.
pub(super) async fn prepare(outbox: &Outbox) {
    outbox.schema.run("CREATE INDEX chaos_sent ON outbox_events (sent_at)").await;
}

/// When the last row was marked as sent, in microseconds since 1970.
pub(super) async fn last_sent(outbox: &Outbox) -> i64 {
    let last = "SELECT coalesce((extract(epoch FROM max(sent_at)) * 1000000)::bigint, 0) FROM outbox_events";
    number(outbox, last).await
}

/// The longest time between two moments, in milliseconds since 1970, without a mark of a row that has no topic of
/// its own.
pub(super) async fn pause_of_others(outbox: &Outbox, from_ms: i64, to_ms: i64) -> Duration {
    let longest = format!(
        "SELECT max(at - before) FROM (
            SELECT at, lag(at, 1, {from_ms}::bigint) OVER (ORDER BY at) AS before FROM (
                SELECT (extract(epoch FROM sent_at) * 1000)::bigint AS at FROM outbox_events
                WHERE topic IS NULL AND sent_at BETWEEN to_timestamp({from_ms} / 1000.0)
                    AND to_timestamp({to_ms} / 1000.0)
                UNION SELECT {to_ms}) marks) pauses"
    );
    Duration::from_millis(number(outbox, &longest).await.unsigned_abs())
}

/// The one number that a query returns; connections of before a fault are of no use, so it asks more than once.
pub(super) async fn number(outbox: &Outbox, sql: &str) -> i64 {
    let since = Instant::now();
    loop {
        let asked = sqlx::query_scalar(AssertSqlSafe(sql.to_owned()));
        match asked.fetch_one(outbox.schema.pool()).await {
            Ok(number) => return number,
            Err(error) => assert!(since.elapsed() < SOON, "{error}: {sql}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
