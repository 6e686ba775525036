//! How the outbox stands, for `status` and `check`.

use sqlx::Sqlite;

use crate::feed::flow::operators::overview::OverviewSql;

impl OverviewSql for Sqlite {
    const REPORT: &'static str = "SELECT standstill FROM outbox_relays
    WHERE lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    const OVERVIEW: &'static str = "SELECT
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NULL AND (failed_at IS NULL OR held = 1)) AS waiting,
    (SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 1) AS held,
    (SELECT unixepoch() - min(since) / 1000 FROM (SELECT d.since UNION ALL SELECT t.since UNION ALL
        SELECT * FROM (SELECT max(created_at, coalesce(deliver_after, created_at)) FROM outbox_events
            WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 1))) AS oldest,
    (SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0
        AND waits_for IS NULL AND retry_at IS NULL) AS failed,
    d.rows - d.delayed AS retrying, d.delayed, d.next AS next_due,
    t.rows - t.destinations AS waiting_for_topic, t.destinations AS waiting_for_destination,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, unixepoch() - r.taken_at / 1000 AS taken,
    max(0, r.lease_until / 1000 - unixepoch()) AS lease_left,
    coalesce(r.epoch, 0) AS fence, r.standstill
FROM (SELECT count(*) AS rows, count(*) FILTER (WHERE deliver_after > CAST(unixepoch('subsec') * 1000 AS INTEGER)) AS delayed,
    min(max(created_at, coalesce(deliver_after, created_at)))
        FILTER (WHERE coalesce(deliver_after <= CAST(unixepoch('subsec') * 1000 AS INTEGER), 1)) AS since,
    max(0, min(retry_at) / 1000 - unixepoch()) AS next FROM outbox_events
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0 AND retry_at IS NOT NULL) d
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE waits_for LIKE 'destination %') AS destinations,
    min(max(created_at, coalesce(deliver_after, created_at))) AS since FROM outbox_events WHERE waits_for IS NOT NULL) t
LEFT JOIN outbox_relays r";
}
