//! The watermarks of many partitions in one transaction.

use sqlx::SqliteConnection;

use super::ownership::watermark;
use crate::port::{Scope, WatermarkMove};

/// Writes what can be written, in the open transaction; whether each was. The writer is alone: what it cannot
/// write is fenced.
pub(super) async fn write(
    conn: &mut SqliteConnection,
    changes: &[(Scope, WatermarkMove)],
) -> Result<Vec<bool>, sqlx::Error> {
    let mut written = Vec::with_capacity(changes.len());
    for (scope, change) in changes {
        written.push(watermark(conn, scope, change).await?);
    }
    Ok(written)
}
