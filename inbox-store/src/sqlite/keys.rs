//! The texts of keys of parked rows.

use sqlx::{Sqlite, SqliteConnection};

use crate::flow::{
    SqlClient as _,
    keys::{KeySql, KeyTexts},
    values,
};

static TEXTS: KeyTexts = KeyTexts {
    are_there: "SELECT EXISTS (SELECT 1 FROM inbox_parked WHERE partition_ref = ?1)",
    records: r#"SELECT parked_seq, "offset", leader_epoch, coalesce(joins, aggregate_key) AS aggregate_key, record FROM inbox_parked
WHERE partition_ref = ?1 AND ("offset", leader_epoch) > (?2, ?3) ORDER BY "offset", leader_epoch LIMIT ?4"#,
    promote: r#"UPDATE inbox_parked AS q SET due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE q.partition_ref = ?1 AND q.due_at IS NULL
AND NOT EXISTS (SELECT 1 FROM inbox_parked h WHERE h.partition_ref = q.partition_ref
    AND h.aggregate_key = q.aggregate_key AND (h."offset", h.leader_epoch) < (q."offset", q.leader_epoch))"#,
};

/// ?1 partition, ?2 number, ?3 key. The queue of an event that waits for versions stays: no lane rule makes it.
const SET: &str = "UPDATE inbox_parked SET aggregate_key = CASE WHEN joins IS NULL THEN ?3 ELSE aggregate_key END,
    joins = CASE WHEN joins IS NOT NULL THEN ?3 END WHERE partition_ref = ?1 AND parked_seq = ?2";

impl KeySql for Sqlite {
    fn keys() -> &'static KeyTexts {
        &TEXTS
    }

    async fn set_keys(
        conn: &mut SqliteConnection,
        partition_ref: i64,
        keys: &[(i64, [u8; 16])],
    ) -> Result<(), sqlx::Error> {
        for (seq, key) in keys {
            Self::execute(conn, SET, values![partition_ref, *seq, key]).await?;
        }
        Ok(())
    }
}
