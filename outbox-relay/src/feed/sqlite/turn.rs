//! The turn.

use std::time::Duration;

use sqlx::{Sqlite, SqliteConnection};
use uuid::fmt::Simple;

use crate::{
    feed::{left, millis},
    port::{FeedError, Turn, TurnAnswer, Turns},
};

/// ?1 holder, ?2 lease in milliseconds.
const TAKE: &str = "UPDATE outbox_relays SET epoch = epoch + 1, owner = ?1,
    taken_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2, standstill = NULL
WHERE lease_until IS NULL OR lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
RETURNING epoch, outbox_id";

const HOLDER: &str = "SELECT coalesce(owner, ''),
    lease_until - CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM outbox_relays";

/// ?1 fence, ?2 lease in milliseconds, ?3 why it ships nothing.
const KEEP: &str = "UPDATE outbox_relays SET
    lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2, standstill = ?3 WHERE epoch = ?1";

/// ?1 fence.
const GIVE_UP: &str = "UPDATE outbox_relays SET owner = NULL, lease_until = NULL, standstill = NULL
WHERE epoch = ?1";

impl Turns for Sqlite {
    async fn take_turn(
        session: &mut SqliteConnection,
        holder: &str,
        lease: Duration,
    ) -> Result<TurnAnswer, FeedError> {
        let taken: Option<(i64, Simple)> = sqlx::query_as(TAKE)
            .bind(holder)
            .bind(millis(lease))
            .fetch_optional(&mut *session)
            .await?;
        if let Some((fence, outbox_id)) = taken {
            return Ok(TurnAnswer::Taken(Turn { fence, outbox_id: outbox_id.into_uuid() }));
        }
        let (holder, rest): (String, Option<i64>) =
            sqlx::query_as(HOLDER).fetch_one(session).await?;
        Ok(TurnAnswer::Held { holder, left: left(rest) })
    }

    async fn keep_turn(
        session: &mut SqliteConnection,
        fence: i64,
        lease: Duration,
        standstill: Option<&str>,
    ) -> Result<bool, FeedError> {
        let kept = sqlx::query(KEEP)
            .bind(fence)
            .bind(millis(lease))
            .bind(standstill)
            .execute(session)
            .await?;
        Ok(kept.rows_affected() == 1)
    }

    async fn give_turn_up(session: &mut SqliteConnection, fence: i64) -> Result<(), FeedError> {
        sqlx::query(GIVE_UP).bind(fence).execute(session).await?;
        Ok(())
    }
}
