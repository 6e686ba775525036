//! Looking, for `status` and `check`; and what roles may do.

use sqlx::{Sqlite, SqliteConnection};

use crate::{
    feed::flow::{Read as _, SqlClient as _, inspection::InspectionSql},
    port::{FeedError, Finding, Rights, RoleKind},
};

const DURABLE: &str = "PRAGMA synchronous";

impl InspectionSql for Sqlite {
    const OVERVIEW: &'static str = "SELECT
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NULL AND (failed_at IS NULL OR held = 1)) AS waiting,
    (SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 1) AS held,
    (SELECT unixepoch() - created_at / 1000 FROM outbox_events
        WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 1) AS oldest,
    (SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0
        AND waits_for IS NULL AND retry_at IS NULL) AS failed,
    d.rows - d.delayed AS retrying, d.delayed, d.next AS next_due,
    (SELECT count(*) FROM outbox_events WHERE waits_for IS NOT NULL) AS waiting_for_topic,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, unixepoch() - r.taken_at / 1000 AS taken,
    max(0, r.lease_until / 1000 - unixepoch()) AS lease_left,
    coalesce(r.epoch, 0) AS fence, r.standstill
FROM (SELECT count(*) AS rows, count(*) FILTER (WHERE deliver_after > CAST(unixepoch('subsec') * 1000 AS INTEGER)) AS delayed,
    max(0, min(retry_at) / 1000 - unixepoch()) AS next FROM outbox_events
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0 AND retry_at IS NOT NULL) d LEFT JOIN outbox_relays r";

    async fn doubts(session: &mut SqliteConnection) -> Result<Vec<Finding>, FeedError> {
        let level: i64 = Self::fetch_one(session, DURABLE, &[]).await?.at(0)?;
        let doubt = Finding {
            fatal: false,
            text: "the database is not durable: synchronous is below FULL; set it to FULL".into(),
        };
        Ok(if level >= 2 { Vec::new() } else { vec![doubt] })
    }
}

impl Rights for Sqlite {
    /// A file knows no roles.
    async fn rights(_session: &mut SqliteConnection) -> Result<Option<Finding>, FeedError> {
        Ok(None)
    }

    fn grants(_schema: Option<&str>, _role: &str, _kind: RoleKind) -> Option<String> {
        None
    }
}
