//! The texts of keys of parked rows.

use sqlx::{PgConnection, Postgres};

use super::sent::on;
use crate::flow::keys::{KeySql, KeyTexts};

static TEXTS: KeyTexts = KeyTexts {
    are_there: "SELECT EXISTS (SELECT FROM inbox_parked WHERE partition_ref = $1)",
    records: r#"SELECT parked_seq, "offset", leader_epoch, coalesce(joins, aggregate_key) AS aggregate_key, record FROM inbox_parked
WHERE partition_ref = $1 AND ("offset", leader_epoch) > ($2, $3) ORDER BY "offset", leader_epoch LIMIT $4"#,
    promote: r#"UPDATE inbox_parked q SET due_at = now() WHERE q.partition_ref = $1 AND q.due_at IS NULL
AND NOT EXISTS (SELECT FROM inbox_parked h WHERE h.partition_ref = q.partition_ref
    AND h.aggregate_key = q.aggregate_key AND (h."offset", h.leader_epoch) < (q."offset", q.leader_epoch))"#,
};

/// $1 partition, then one array a column. The queue of an event that waits for versions stays: no lane rule makes it.
const SET: &str = "UPDATE inbox_parked q SET aggregate_key = CASE WHEN q.joins IS NULL THEN k.key ELSE q.aggregate_key END,
    joins = CASE WHEN q.joins IS NOT NULL THEN k.key END FROM unnest($2::bigint[], $3::bytea[]) k(seq, key)
WHERE q.partition_ref = $1 AND q.parked_seq = k.seq";

impl KeySql for Postgres {
    fn keys() -> &'static KeyTexts {
        &TEXTS
    }

    async fn set_keys(
        conn: &mut PgConnection,
        partition_ref: i64,
        keys: &[(i64, [u8; 16])],
    ) -> Result<(), sqlx::Error> {
        sqlx::query(SET)
            .bind(partition_ref)
            .bind(keys.iter().map(|(seq, _)| *seq).collect::<Vec<_>>())
            .bind(keys.iter().map(|(_, key)| *key).collect::<Vec<_>>())
            .execute(on(conn))
            .await
            .map(drop)
    }
}
