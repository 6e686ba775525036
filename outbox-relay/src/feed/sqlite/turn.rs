//! The texts of turns.

use sqlx::{Row as _, Sqlite, sqlite::SqliteRow};
use uuid::{Uuid, fmt::Simple};

use crate::feed::flow::turn::{TurnSql, TurnTexts};

pub(super) static TEXTS: TurnTexts = TurnTexts {
    take: "UPDATE outbox_relays SET epoch = epoch + 1, token = ?3, token_epoch = epoch + 1, lease_ms = ?2,
    owner = ?1, taken_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2, standstill = NULL
WHERE (lease_until IS NULL OR lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
    OR (epoch = ?4 AND CAST(lease_until AS TEXT) = ?5)) AND relay_ref IS NOT ?6 AND (shards <> 0 OR ?7 = 1)
RETURNING epoch, outbox_id, relay_ref AS seat, shards",
    holder: "SELECT coalesce(owner, '') AS holder, coalesce(CAST(lease_until AS TEXT), '') AS until,
    lease_until - CAST(unixepoch('subsec') * 1000 AS INTEGER) AS rest, epoch AS fence,
    CASE WHEN token_epoch = epoch THEN lease_ms END AS lease FROM outbox_relays WHERE relay_ref IS NOT ?1",
    keep: "UPDATE outbox_relays SET
    lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3, standstill = ?4 WHERE epoch = ?1 AND token = ?2
    RETURNING outbox_id, shards",
    give_up: "UPDATE outbox_relays SET owner = NULL, lease_until = NULL, standstill = NULL
WHERE epoch = ?1 AND token = ?2",
    used: "SELECT relay_ref AS seat, shards, coalesce(lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER), 0) AS live
FROM outbox_relays",
    // There is no other seat.
    give: "SELECT shards FROM outbox_relays WHERE epoch = ?1 AND token = ?2 AND relay_ref = ?3 AND shards = ?4 AND false",
    merge: "SELECT shards FROM outbox_relays WHERE epoch = ?1 AND token = ?2 AND epoch = ?3 AND token = ?4 AND false",
    ring: None,
};

impl TurnSql for Sqlite {
    fn turns() -> &'static TurnTexts {
        &TEXTS
    }

    fn outbox_id(row: &SqliteRow) -> Result<Uuid, sqlx::Error> {
        row.try_get("outbox_id").map(Simple::into_uuid)
    }
}
