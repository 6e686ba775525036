//! The texts of turns.

use sqlx::{Postgres, Row as _, postgres::PgRow};
use uuid::Uuid;

use crate::feed::flow::turn::{TurnSql, TurnTexts};

/// Numbers of turns differ by sixteen, so that none is given at two seats.
pub(super) static TEXTS: TurnTexts = TurnTexts {
    take: "WITH free AS (SELECT relay_ref FROM outbox_relays
    WHERE (lease_until IS NULL OR lease_until <= now() OR (epoch = $4 AND lease_until::text = $5))
        AND relay_ref IS DISTINCT FROM $6 AND (shards <> 0 OR $7 = 1)
    ORDER BY shards = 0, relay_ref LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE outbox_relays r SET epoch = epoch + 16, token = $3, token_epoch = epoch + 16, lease_ms = $2,
    owner = $1, taken_at = now(), lease_until = now() + $2 * interval '1 millisecond', standstill = NULL
FROM free WHERE r.relay_ref = free.relay_ref
RETURNING epoch, outbox_id, r.relay_ref::bigint AS seat, shards::bigint AS shards",
    holder: "SELECT coalesce(owner, '') AS holder, coalesce(lease_until::text, '') AS until,
    (extract(epoch FROM lease_until - now()) * 1000)::bigint AS rest, epoch AS fence,
    CASE WHEN token_epoch = epoch THEN lease_ms END AS lease FROM outbox_relays
WHERE shards <> 0 AND relay_ref IS DISTINCT FROM $1 ORDER BY lease_until NULLS FIRST, relay_ref LIMIT 1",
    keep: "UPDATE outbox_relays SET lease_until = now() + $3 * interval '1 millisecond',
    standstill = $4 WHERE epoch = $1 AND token = $2 RETURNING outbox_id, shards::bigint AS shards",
    give_up: "UPDATE outbox_relays SET owner = NULL, lease_until = NULL, standstill = NULL WHERE epoch = $1 AND token = $2",
    used: "SELECT relay_ref::bigint AS seat, shards::bigint AS shards, coalesce(lease_until > now(), false) AS live
FROM outbox_relays WHERE lease_until > now() OR shards <> 0 ORDER BY 1",
    give: "WITH pair AS MATERIALIZED (SELECT relay_ref, epoch, token, lease_until FROM outbox_relays
    WHERE (epoch = $1 AND token = $2) OR relay_ref = $3 ORDER BY relay_ref FOR NO KEY UPDATE),
given AS (UPDATE outbox_relays r SET shards = r.shards | $4::integer
    WHERE r.relay_ref = $3 AND EXISTS (SELECT FROM pair WHERE relay_ref = $3 AND lease_until > now())
    AND EXISTS (SELECT FROM pair WHERE epoch = $1 AND token = $2) RETURNING 1)
UPDATE outbox_relays r SET shards = r.shards & ~$4::integer FROM given WHERE r.epoch = $1 AND r.token = $2",
    merge: "WITH pair AS MATERIALIZED (SELECT relay_ref, epoch, token, shards FROM outbox_relays
    WHERE (epoch = $1 AND token = $2) OR (epoch = $3 AND token = $4) ORDER BY relay_ref FOR NO KEY UPDATE),
merged AS (UPDATE outbox_relays r SET shards = r.shards | b.shards FROM pair b
    WHERE b.epoch = $1 AND b.token = $2 AND r.epoch = $3 AND r.token = $4 RETURNING r.shards),
given_up AS (UPDATE outbox_relays r SET shards = 0, owner = NULL, lease_until = NULL, standstill = NULL
    FROM merged WHERE r.epoch = $1 AND r.token = $2)
SELECT shards::bigint AS shards FROM merged",
    ring: Some("SELECT pg_notify('outbox_relays', 'outbox_events'::regclass::oid::text)::text"),
};

impl TurnSql for Postgres {
    fn turns() -> &'static TurnTexts {
        &TEXTS
    }

    fn outbox_id(row: &PgRow) -> Result<Uuid, sqlx::Error> {
        row.try_get("outbox_id")
    }
}
