//! Removing rows.

use std::time::Duration;

use sqlx::{Sqlite, SqliteConnection};

use crate::{
    feed::{
        flow::{Read as _, SqlClient as _, values},
        millis,
    },
    port::{FeedError, Pruned, Retention},
};

/// ?1 age in milliseconds, ?2 chunk, ?3 behind which number. What was written first was sent first, or nearly, so that
/// behind rows that were sent lately nothing is old enough. What is parked or not sent yet says nothing: its destination
/// may be out, or its time may not have come.
const PAGE: &str = "SELECT max(seq), coalesce(min(old IS NOT 0) AND (min(parked OR old IS 1) OR count(*) = ?2), 1),
    coalesce(max(NOT old), 0) AND NOT coalesce(max(old), 0), coalesce(max(old), 0)
FROM (SELECT seq, coalesce(sent_at, discarded_at) <= CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?1 AS old,
        parked_at IS NOT NULL AS parked FROM outbox_events WHERE seq > ?3 ORDER BY seq LIMIT ?2)";
/// ?1 age in milliseconds, ?2 and ?3 between which numbers.
const PRUNE: &str = "DELETE FROM outbox_events WHERE seq > ?2 AND seq <= ?3
    AND coalesce(sent_at, discarded_at) <= CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?1";

impl Retention for Sqlite {
    async fn prune(
        session: &mut SqliteConnection,
        age: Duration,
        chunk: u32,
        after: i64,
    ) -> Result<Pruned, FeedError> {
        let values = values![millis(age), i64::from(chunk), after];
        let page = Self::fetch_one(session, PAGE, values).await?;
        let (last, idle, end): (Option<i64>, bool, bool) = (page.at(0)?, page.at(1)?, page.at(2)?);
        let any: bool = page.at(3)?;
        let removed = match last {
            Some(last) if any => {
                Self::execute(session, PRUNE, values![millis(age), after, last]).await?
            }
            _ => 0,
        };
        Ok(Pruned { removed, last, idle, end })
    }
}
