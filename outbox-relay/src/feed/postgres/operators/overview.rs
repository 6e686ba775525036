//! How the outbox stands, for `status` and `check`.

use sqlx::Postgres;

use crate::feed::flow::operators::overview::OverviewSql;

impl OverviewSql for Postgres {
    const REPORT: &'static str = "SELECT standstill FROM outbox_relays WHERE lease_until > now()";
    /// What is held is counted in the index of all that is set aside: it may be much.
    const OVERVIEW: &'static str = "SELECT w.unsent + h.held AS waiting, h.held,
    greatest(-1e12::float8, least(date_part('epoch', now()) - date_part('epoch', least(
        (SELECT greatest(created_at, deliver_after) FROM outbox_events
            WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 1), d.since, t.since)), 1e12::float8))::bigint AS oldest,
    greatest(0, h.heads - t.rows - d.rows) AS failed, d.rows - d.delayed AS retrying, d.delayed, d.next AS next_due,
    t.rows - t.destinations AS waiting_for_topic, t.destinations AS waiting_for_destination,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, extract(epoch FROM now() - r.taken_at)::bigint AS taken,
    greatest(0, extract(epoch FROM r.lease_until - now())::bigint) AS lease_left,
    coalesce(r.epoch, 0) AS fence, r.standstill
FROM (SELECT count(*) AS unsent FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL) w
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE waits_for LIKE 'destination %') AS destinations,
    min(greatest(created_at, deliver_after)) AS since FROM outbox_events WHERE waits_for IS NOT NULL) t
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE deliver_after > now()) AS delayed,
    min(greatest(created_at, deliver_after)) FILTER (WHERE coalesce(deliver_after <= now(), true)) AS since,
    CASE WHEN count(*) > 0 THEN greatest(0, least(date_part('epoch', min(retry_at)) - date_part('epoch', now()), 1e9::float8))::bigint
        END AS next
    FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NOT NULL) d
CROSS JOIN (SELECT n.heads, a.together - n.heads AS held FROM
    (SELECT count(*) AS together FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL) a,
    (SELECT count(*) AS heads FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held) n) h
LEFT JOIN outbox_relays r ON true";
}
