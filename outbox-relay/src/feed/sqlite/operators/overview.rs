//! How the outbox stands, for `status` and `check`.

use sqlx::Sqlite;

use crate::feed::flow::operators::overview::OverviewSql;

impl OverviewSql for Sqlite {
    const REPORT: &'static str = "SELECT standstill FROM outbox_relays
    WHERE lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    const WAITED_FOR: &'static str =
        "SELECT DISTINCT destination FROM outbox_parked WHERE state = 'waiting' ORDER BY 1";
    const OVERVIEW: &'static str = "SELECT w.unsent + p.ready + p.behind AS waiting, p.behind AS held,
    (SELECT unixepoch() - min(since) / 1000 FROM (SELECT p.since UNION ALL
        SELECT * FROM (SELECT max(created_at, coalesce(deliver_after, created_at)) FROM outbox_events
            WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY seq LIMIT 1))) AS oldest,
    p.parked AS failed, p.retrying, p.delayed, max(0, p.next / 1000 - unixepoch()) AS next_due,
    p.topics AS waiting_for_topic, p.destinations AS waiting_for_destination,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, unixepoch() - r.taken_at / 1000 AS taken,
    max(0, r.lease_until / 1000 - unixepoch()) AS lease_left,
    coalesce(r.epoch, 0) AS fence, r.standstill,
    r.lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER) AS relays
FROM (SELECT count(*) AS unsent FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL) w
CROSS JOIN (SELECT count(*) FILTER (WHERE p.state = 'ready') AS ready, count(*) FILTER (WHERE p.state = 'behind') AS behind,
    count(*) FILTER (WHERE p.state = 'parked') AS parked, count(*) FILTER (WHERE p.state = 'retry') AS retrying,
    count(*) FILTER (WHERE p.state = 'scheduled') AS delayed, min(p.due_at) FILTER (WHERE p.state IN ('retry', 'scheduled')) AS next,
    count(*) FILTER (WHERE p.state = 'waiting' AND p.destination LIKE 'kafka:%') AS topics,
    count(*) FILTER (WHERE p.state = 'waiting' AND p.destination NOT LIKE 'kafka:%') AS destinations,
    min(max(e.created_at, coalesce(e.deliver_after, e.created_at)))
        FILTER (WHERE p.state <> 'scheduled' OR p.due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER)) AS since
    FROM outbox_parked p LEFT JOIN outbox_events e ON e.seq = p.seq AND p.due_at IS NOT NULL) p
LEFT JOIN outbox_relays r";
}
