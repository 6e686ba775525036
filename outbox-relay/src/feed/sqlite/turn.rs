//! The turn.

use std::time::Duration;

use sqlx::{Sqlite, SqliteConnection};
use uuid::Uuid;

use crate::{
    feed::{NAME, left, millis},
    port::{FeedError, Turn, TurnAnswer, Turns},
};

const ADD: &str = "INSERT INTO outbox_relays (name) VALUES (?1) ON CONFLICT DO NOTHING";

/// ?1 name, ?2 holder, ?3 lease in milliseconds.
const TAKE: &str = "UPDATE outbox_relays SET fence = fence + 1, holder = ?2,
    holder_seen = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    held_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3, standstill = NULL
WHERE name = ?1 AND (held_until IS NULL OR held_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER))
RETURNING fence, outbox_id";

const HOLDER: &str = "SELECT coalesce(holder, ''),
    held_until - CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM outbox_relays WHERE name = ?1";

/// ?1 name, ?2 fence, ?3 lease in milliseconds, ?4 why it ships nothing.
const KEEP: &str = "UPDATE outbox_relays SET
    holder_seen = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    held_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3, standstill = ?4
WHERE name = ?1 AND fence = ?2";

/// ?1 name, ?2 fence.
const GIVE_UP: &str = "UPDATE outbox_relays SET holder = NULL, held_until = NULL, standstill = NULL
WHERE name = ?1 AND fence = ?2";

impl Turns for Sqlite {
    async fn take_turn(
        session: &mut SqliteConnection,
        holder: &str,
        lease: Duration,
    ) -> Result<TurnAnswer, FeedError> {
        sqlx::query(ADD).bind(NAME).execute(&mut *session).await?;
        let taken: Option<(i64, Uuid)> = sqlx::query_as(TAKE)
            .bind(NAME)
            .bind(holder)
            .bind(millis(lease))
            .fetch_optional(&mut *session)
            .await?;
        if let Some((fence, outbox_id)) = taken {
            return Ok(TurnAnswer::Taken(Turn { fence, outbox_id }));
        }
        let (holder, rest): (String, Option<i64>) =
            sqlx::query_as(HOLDER).bind(NAME).fetch_one(session).await?;
        Ok(TurnAnswer::Held { holder, left: left(rest) })
    }

    async fn keep_turn(
        session: &mut SqliteConnection,
        fence: i64,
        lease: Duration,
        standstill: Option<&str>,
    ) -> Result<bool, FeedError> {
        let kept = sqlx::query(KEEP)
            .bind(NAME)
            .bind(fence)
            .bind(millis(lease))
            .bind(standstill)
            .execute(session)
            .await?;
        Ok(kept.rows_affected() == 1)
    }

    async fn give_turn_up(session: &mut SqliteConnection, fence: i64) -> Result<(), FeedError> {
        sqlx::query(GIVE_UP).bind(NAME).bind(fence).execute(session).await?;
        Ok(())
    }
}
