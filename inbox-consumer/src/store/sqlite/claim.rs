//! The live transaction: begin, claim, the second look, advance, end.

use inbox_engine::{LaneMove, Offset, Rule};
use sqlx::{AssertSqlSafe, Row, Sqlite, SqliteConnection};

use super::{joined, moves, numbers, places, session, writer};
use crate::{
    pipeline::port::{Claim, ClaimRequest, Claimed, Known, Recheck, Scope, TxLimits},
    store::{
        count, sixteen,
        statement::{Cut, Statement},
        unexpected,
    },
};

/// ?1 consumer, ?2 partition, ?3 ids, ?4 fingerprints, ?5 offsets.
pub(super) static CLAIM: Statement = Statement::new(
    r#"INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, "offset")
SELECT ?1, substr(?3, key * 16 + 1, 16), substr(?4, key * 16 + 1, 16), ?2, value FROM json_each(?5)
WHERE true ON CONFLICT DO NOTHING RETURNING event_id"#,
    &[
        Cut::new(
            Rule::Inbox,
            "ON CONFLICT DO NOTHING",
            "ON CONFLICT DO UPDATE SET parked = parked",
        ),
        Cut::new(Rule::ConsumerScope, "SELECT ?1,", "SELECT ?1 * 0,"),
    ],
);

/// ?1 partition, ?2 aggregates, ?3 their places.
pub(super) static HELD: Statement = Statement::new(
    "SELECT substr(?2, value * 16 + 1, 16) FROM json_each(?3) WHERE EXISTS
(SELECT 1 FROM inbox_parked q WHERE q.partition_ref = ?1 AND q.aggregate_key = substr(?2, value * 16 + 1, 16))",
    &[Cut::new(
        Rule::HeldReadInClaim,
        "(SELECT 1 FROM inbox_parked q WHERE q.partition_ref = ?1 AND q.aggregate_key = substr(?2, value * 16 + 1, 16))",
        "(SELECT 1 WHERE false)",
    )],
);

/// ?1 partition, ?2 moves, ?3 epoch.
pub(super) static LANES_MINE: Statement = Statement::new(
    "SELECT count(*) FROM json_each(?2) v JOIN inbox_lanes l
    ON l.partition_ref = ?1 AND l.lane = v.value ->> 0
WHERE l.epoch = ?3 AND l.last_offset = v.value ->> 1",
    &[Cut::new(Rule::LanesAtClaim, "WHERE l.epoch = ?3 AND l.last_offset = v.value ->> 1", "")],
);

/// The same count, for the second look.
pub(super) static LANES_STILL_MINE: Statement = Statement::new(
    "SELECT count(*) FROM json_each(?2) v JOIN inbox_lanes l
    ON l.partition_ref = ?1 AND l.lane = v.value ->> 0
WHERE l.epoch = ?3 AND l.last_offset = v.value ->> 1",
    &[Cut::new(
        Rule::DuplicatesRereadLanes,
        "WHERE l.epoch = ?3 AND l.last_offset = v.value ->> 1",
        "",
    )],
);

/// ?1 consumer, ?2 ids, ?3 their places.
pub(super) static KNOWN: Statement = Statement::new(
    r#"SELECT e.event_id, e.fingerprint, e.partition_ref, e."offset", e.parked FROM json_each(?3) v
JOIN inbox_events e ON e.consumer_ref = ?1 AND e.event_id = substr(?2, v.value * 16 + 1, 16)"#,
    &[Cut::new(Rule::ConsumerScope, "e.consumer_ref = ?1 ", "e.consumer_ref = ?1 * 0 ")],
);

/// ?1 partition, ?2 moves, ?3 epoch.
pub(super) static ADVANCE: Statement = Statement::new(
    "UPDATE inbox_lanes AS l SET last_offset = v.new, last_leader_epoch = v.le
FROM (SELECT value ->> 0 AS lane, value ->> 1 AS prev, value ->> 2 AS new, value ->> 3 AS le
    FROM json_each(?2)) v
WHERE l.partition_ref = ?1 AND l.lane = v.lane AND l.epoch = ?3 AND l.last_offset = v.prev",
    &[
        Cut::new(Rule::EpochAtAdvance, " AND l.epoch = ?3", ""),
        Cut::new(Rule::PrevAtAdvance, " AND l.last_offset = v.prev", ""),
    ],
);

impl Claim for Sqlite {
    async fn begin(conn: &mut SqliteConnection, limits: &TxLimits) -> Result<(), sqlx::Error> {
        session::begin(conn, limits).await
    }

    async fn claim(
        conn: &mut SqliteConnection,
        scope: &Scope,
        request: &ClaimRequest,
    ) -> Result<Claimed, sqlx::Error> {
        let tx = writer::session(conn).await?.tx();
        let fresh: Vec<Vec<u8>> = sqlx::query_scalar(CLAIM.text())
            .bind(scope.consumer_ref)
            .bind(scope.partition_ref)
            .bind(joined(&request.ids))
            .bind(joined(&request.fingerprints))
            .bind(numbers(request.offsets.iter().copied()))
            .fetch_all(&mut *conn)
            .await?;
        let held: Vec<Vec<u8>> = sqlx::query_scalar(HELD.text())
            .bind(scope.partition_ref)
            .bind(joined(&request.aggregates))
            .bind(places(request.aggregates.len()))
            .fetch_all(&mut *conn)
            .await?;
        Ok(Claimed {
            tx: tx.ok_or_else(|| unexpected("a claim was made outside of a transaction"))?,
            fresh: fresh.iter().map(|id| sixteen(id)).collect::<Result<_, _>>()?,
            held: held.iter().map(|key| sixteen(key)).collect::<Result<_, _>>()?,
            lanes_mine: lanes_mine(conn, &LANES_MINE, scope, &request.lanes).await?,
        })
    }

    async fn recheck(
        conn: &mut SqliteConnection,
        scope: &Scope,
        ids: &[[u8; 16]],
        lanes: &[LaneMove],
    ) -> Result<Recheck, sqlx::Error> {
        let rows = sqlx::query(KNOWN.text())
            .bind(scope.consumer_ref)
            .bind(joined(ids))
            .bind(places(ids.len()))
            .fetch_all(&mut *conn)
            .await?;
        let known = rows.iter().map(|row| {
            Ok::<_, sqlx::Error>(Known {
                id: sixteen(row.try_get("event_id")?)?,
                fingerprint: sixteen(row.try_get("fingerprint")?)?,
                partition_ref: row.try_get("partition_ref")?,
                offset: Offset(row.try_get("offset")?),
                parked: row.try_get("parked")?,
            })
        });
        Ok(Recheck {
            known: known.collect::<Result<_, _>>()?,
            lanes_mine: lanes_mine(conn, &LANES_STILL_MINE, scope, lanes).await?,
        })
    }

    async fn advance(
        conn: &mut SqliteConnection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
    ) -> Result<u64, sqlx::Error> {
        // The savepoint is there exactly as long as the transaction that set it.
        if Rule::SameTransactionAtAdvance.on() {
            let release = AssertSqlSafe(format!("RELEASE SAVEPOINT \"{tx}\""));
            sqlx::raw_sql(release).execute(&mut *conn).await?;
        }
        let done = sqlx::query(ADVANCE.text())
            .bind(scope.partition_ref)
            .bind(moves(lanes))
            .bind(scope.epoch.0)
            .execute(conn)
            .await?;
        Ok(done.rows_affected())
    }

    async fn same_transaction(conn: &mut SqliteConnection, tx: &str) -> Result<bool, sqlx::Error> {
        Ok(writer::session(conn).await?.tx().as_deref() == Some(tx))
    }

    async fn commit(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        session::commit(conn).await
    }

    async fn rollback(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        session::rollback(conn).await
    }
}

async fn lanes_mine(
    conn: &mut SqliteConnection,
    statement: &'static Statement,
    scope: &Scope,
    lanes: &[LaneMove],
) -> Result<u64, sqlx::Error> {
    let mine: i64 = sqlx::query_scalar(statement.text())
        .bind(scope.partition_ref)
        .bind(moves(lanes))
        .bind(scope.epoch.0)
        .fetch_one(conn)
        .await?;
    Ok(count(mine))
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::CLAIM.check();
        super::HELD.check();
        super::LANES_MINE.check();
        super::LANES_STILL_MINE.check();
        super::KNOWN.check();
        super::ADVANCE.check();
    }
}
