//! How the outbox stands, for `status` and `check`.

use sqlx::Postgres;

use crate::feed::flow::operators::overview::OverviewSql;

impl OverviewSql for Postgres {
    const REPORT: &'static str = "SELECT string_agg(standstill, E'\\n' ORDER BY relay_ref) FROM outbox_relays WHERE lease_until > now()";
    const WAITED_FOR: &'static str =
        "SELECT DISTINCT destination FROM outbox_parked WHERE state = 'waiting' ORDER BY 1";
    const OVERVIEW: &'static str = "SELECT w.unsent + p.ready + p.behind AS waiting, p.behind AS held,
    greatest(-1e12::float8, least(date_part('epoch', now()) - date_part('epoch', least(
        (SELECT greatest(created_at, deliver_after) FROM outbox_events
            WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY seq LIMIT 1), p.since)), 1e12::float8))::bigint AS oldest,
    p.parked AS failed, p.retrying, p.delayed,
    CASE WHEN p.next IS NOT NULL THEN
        greatest(0, least(date_part('epoch', p.next) - date_part('epoch', now()), 1e9::float8))::bigint END AS next_due,
    p.topics AS waiting_for_topic, p.destinations AS waiting_for_destination,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, extract(epoch FROM now() - r.taken_at)::bigint AS taken,
    greatest(0, extract(epoch FROM r.lease_until - now())::bigint) AS lease_left,
    coalesce(r.epoch, 0) AS fence, (SELECT string_agg(standstill, E'\\n' ORDER BY relay_ref) FROM outbox_relays) AS standstill,
    (SELECT count(*) FROM outbox_relays WHERE shards <> 0 AND lease_until > now()) AS relays
FROM (SELECT count(*) AS unsent FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL) w
CROSS JOIN (SELECT count(*) FILTER (WHERE p.state = 'ready') AS ready, count(*) FILTER (WHERE p.state = 'behind') AS behind,
    count(*) FILTER (WHERE p.state = 'parked') AS parked, count(*) FILTER (WHERE p.state = 'retry') AS retrying,
    count(*) FILTER (WHERE p.state = 'scheduled') AS delayed, min(p.due_at) FILTER (WHERE p.state IN ('retry', 'scheduled')) AS next,
    count(*) FILTER (WHERE p.state = 'waiting' AND p.destination LIKE 'kafka:%') AS topics,
    count(*) FILTER (WHERE p.state = 'waiting' AND p.destination NOT LIKE 'kafka:%') AS destinations,
    min(greatest(e.created_at, e.deliver_after)) FILTER (WHERE p.state <> 'scheduled' OR p.due_at <= now()) AS since
    FROM outbox_parked p LEFT JOIN outbox_events e ON e.seq = p.seq AND p.due_at IS NOT NULL) p
LEFT JOIN (SELECT * FROM outbox_relays WHERE shards <> 0 ORDER BY lease_until NULLS FIRST, relay_ref LIMIT 1) r ON true";
}
