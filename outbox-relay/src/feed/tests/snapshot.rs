//! What a relay's statements cost while a snapshot stays open: no version of a row that was written after it can be
//! removed.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};

use super::{
    Place,
    services::{dropped, session},
};
use crate::port::{Conclusion, Retention as _, RowKey, RowQuery, Rows as _, Stored, Turns as _};

/// Pages of the outbox and of its indexes that this session has looked at.
const LOOKED_AT: &str = "SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM (
    SELECT t.oid FROM unnest('{outbox_relays, outbox_events, outbox_parked}'::regclass[]) t(oid)
    UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid IN ('outbox_relays'::regclass, 'outbox_events'::regclass,
        'outbox_parked'::regclass)) all_of_them";
const LEASE: Duration = Duration::from_secs(15);
/// Of an hour and a half. The one row of turns has a new version each five seconds, and a mark reads them all: a page for
/// seventy, which is let be.
const KEPT: i64 = 1_000;

async fn run(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.unwrap();
}

/// The pages that a poll, a mark, a renewal of the lease and a step of pruning read, after 10, 1,000 and 20,000 marks
/// and renewals.
#[tokio::test]
async fn a_batch_costs_the_same_however_many_rows_a_snapshot_keeps() {
    let mut place = Place::<Postgres>::new(session().await).await;
    let url = std::env::var("INBOX_TEST_POSTGRES").unwrap();
    let mut reading = PgConnection::connect(&url).await.unwrap();
    let fill = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id)
        SELECT gen_random_uuid(), 'T', 'A', n::text FROM generate_series(1, 21000) n; ANALYZE outbox_events;
        SET synchronous_commit = off; SET enable_seqscan = off";
    place.run_all(fill).await;
    run(&mut reading, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await;
    let mut costs = Vec::new();
    let mut done = 0;
    for until in [10_i64, 1_000, 20_000] {
        for _ in done..until.min(KEPT) {
            place.keep().await;
        }
        // Of what was sent half is removed.
        place
            .run_all(&format!(
                "UPDATE outbox_events SET sent_at = now() - interval '1 hour' WHERE seq <= {until} AND seq > {done};
                 DELETE FROM outbox_events WHERE seq <= {until} / 2"
            ))
            .await;
        done = until;
        costs.push(place.cost(until).await);
    }
    run(&mut reading, "ROLLBACK").await;
    dropped(place.session).await;
    assert!(costs.iter().flatten().all(|pages| (1..=130).contains(pages)), "{costs:?}");
}

impl Place<Postgres> {
    async fn run_all(&mut self, sql: &str) {
        run(&mut self.session, sql).await;
    }

    async fn keep(&mut self) {
        let kept = Postgres::keep_turn(&mut self.session, self.turn, LEASE, None).await.unwrap();
        assert!(kept.is_some());
    }

    /// Pages of a read, a mark, a sign of life and a step of pruning, behind rows that are done with.
    async fn cost(&mut self, sent: i64) -> [i64; 4] {
        let mut pages = Vec::new();
        let mut before = self.number(LOOKED_AT).await;
        let look = RowQuery { floor: sent, rows_max: 10, ..super::LOOK };
        let found = Postgres::unsent(&mut self.session, look).await.unwrap();
        let ids: Vec<RowKey> = found.rows.iter().map(|row| row.id).collect();
        assert_eq!(ids.first().map(|id| id.seq), Some(sent + 1));
        for step in 0..4 {
            match step {
                0 => {}
                1 => {
                    let sent = Conclusion { sent: ids.clone(), ..Conclusion::default() };
                    let stored = Postgres::store(&mut self.session, self.turn, &sent).await;
                    assert_eq!(stored.unwrap(), Stored::All);
                }
                2 => self.keep().await,
                _ => {
                    let after = sent / 2;
                    let age = Duration::from_hours(2);
                    Postgres::prune(&mut self.session, age, 10, after).await.unwrap();
                }
            }
            let now = self.number(LOOKED_AT).await;
            pages.push(now - before);
            before = now;
        }
        pages.try_into().unwrap()
    }
}
