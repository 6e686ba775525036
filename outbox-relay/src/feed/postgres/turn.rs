//! The texts of turns.

use sqlx::{Postgres, Row as _, postgres::PgRow};
use uuid::Uuid;

use crate::feed::flow::turn::{TurnSql, TurnTexts};

pub(super) static TEXTS: TurnTexts = TurnTexts {
    take: "UPDATE outbox_relays SET epoch = epoch + 1, token = $3, token_epoch = epoch + 1, lease_ms = $2,
    owner = $1, taken_at = now(), lease_until = now() + $2 * interval '1 millisecond', standstill = NULL
WHERE lease_until IS NULL OR lease_until <= now() OR (epoch = $4 AND lease_until::text = $5) RETURNING epoch, outbox_id",
    holder: "SELECT coalesce(owner, '') AS holder, coalesce(lease_until::text, '') AS until,
    (extract(epoch FROM lease_until - now()) * 1000)::bigint AS rest, epoch AS fence,
    CASE WHEN token_epoch = epoch THEN lease_ms END AS lease FROM outbox_relays",
    keep: "UPDATE outbox_relays SET lease_until = now() + $3 * interval '1 millisecond',
    standstill = $4 WHERE epoch = $1 AND token = $2 RETURNING outbox_id",
    give_up: "WITH mine AS (UPDATE outbox_relays SET owner = NULL, lease_until = NULL,
    standstill = NULL WHERE epoch = $1 AND token = $2 RETURNING 1)
SELECT pg_notify('outbox_relays', 'outbox_events'::regclass::oid::text)::text FROM mine",
};

impl TurnSql for Postgres {
    fn turns() -> &'static TurnTexts {
        &TEXTS
    }

    fn outbox_id(row: &PgRow) -> Result<Uuid, sqlx::Error> {
        row.try_get("outbox_id")
    }
}
