//! What the figures are read from: WAL, sizes of tables.

use tests::Schema;

pub(super) async fn wal(schema: &Schema) -> String {
    let query = sqlx::query_scalar("SELECT pg_current_wal_lsn()::text");
    query.fetch_one(schema.pool()).await.expect("a place in the WAL")
}

pub(super) async fn wal_since(schema: &Schema, begin: &str) -> u64 {
    let query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::bigint";
    let bytes: i64 =
        sqlx::query_scalar(query).bind(begin).fetch_one(schema.pool()).await.expect("a distance");
    bytes.unsigned_abs()
}

/// A table with its indexes, after what is dead in it has been cleared.
pub(super) async fn size(schema: &Schema, table: &str) -> u64 {
    schema.run(&format!("VACUUM {table}")).await;
    let bytes = schema.number(&format!("SELECT pg_total_relation_size('{table}')")).await;
    bytes.unsigned_abs()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn per(total: u64, events: u64) -> f64 {
    total as f64 / events as f64
}
