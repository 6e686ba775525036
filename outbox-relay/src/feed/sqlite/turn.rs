//! The turn.

use std::time::Duration;

use inbox_engine::internal::{Cut, Rule, Statement};
use sqlx::{Row as _, Sqlite, SqliteConnection};
use uuid::{Uuid, fmt::Simple};

use crate::{
    feed::{held, millis},
    port::{FeedError, Turn, TurnAnswer, TurnRequest, Turns},
};

/// ?1 holder, ?2 lease in milliseconds, ?3 token, ?4 and ?5 a lease that is silent for longer than it lasts.
const TAKE: &str = "UPDATE outbox_relays SET epoch = epoch + 1, token = ?3, token_epoch = epoch + 1, lease_ms = ?2,
    owner = ?1, taken_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2, standstill = NULL
WHERE lease_until IS NULL OR lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
    OR (epoch = ?4 AND CAST(lease_until AS TEXT) = ?5)
RETURNING epoch, outbox_id";

const HOLDER: &str =
    "SELECT coalesce(owner, '') AS holder, coalesce(CAST(lease_until AS TEXT), '') AS until,
    lease_until - CAST(unixepoch('subsec') * 1000 AS INTEGER) AS rest, epoch AS fence,
    CASE WHEN token_epoch = epoch THEN lease_ms END AS lease FROM outbox_relays";

/// ?1 fence, ?2 token, ?3 lease in milliseconds, ?4 why it ships nothing.
static KEEP: Statement = Statement::new(
    "UPDATE outbox_relays SET
    lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3, standstill = ?4 WHERE epoch = ?1 AND token = ?2
    RETURNING outbox_id",
    &[Cut::new(Rule::TurnHasToken, "token = ?2", "?2 IS NOT NULL")],
);

/// ?1 fence, ?2 token.
static GIVE_UP: Statement = Statement::new(
    "UPDATE outbox_relays SET owner = NULL, lease_until = NULL, standstill = NULL
WHERE epoch = ?1 AND token = ?2",
    &[Cut::new(Rule::TurnHasToken, "token = ?2", "?2 IS NOT NULL")],
);

impl Turns for Sqlite {
    async fn take_turn(
        session: &mut SqliteConnection,
        request: TurnRequest<'_>,
    ) -> Result<TurnAnswer, FeedError> {
        let TurnRequest { holder, lease, token, silent } = request;
        let taken: Option<(i64, Simple)> = sqlx::query_as(TAKE)
            .bind(holder)
            .bind(millis(lease))
            .bind(token)
            .bind(silent.map(|mark| mark.fence))
            .bind(silent.map(|mark| mark.until.as_str()))
            .fetch_optional(&mut *session)
            .await?;
        if let Some((fence, outbox_id)) = taken {
            return Ok(TurnAnswer::Taken(Turn { fence, token, outbox_id: outbox_id.into_uuid() }));
        }
        let row = sqlx::query(HOLDER).fetch_one(session).await?;
        Ok(TurnAnswer::Held(held!(row)))
    }

    async fn keep_turn(
        session: &mut SqliteConnection,
        turn: Turn,
        lease: Duration,
        standstill: Option<&str>,
    ) -> Result<Option<Uuid>, FeedError> {
        let kept: Option<Simple> = sqlx::query_scalar(KEEP.text())
            .bind(turn.fence)
            .bind(turn.token)
            .bind(millis(lease))
            .bind(standstill)
            .fetch_optional(session)
            .await?;
        Ok(kept.map(Simple::into_uuid))
    }

    async fn give_turn_up(session: &mut SqliteConnection, turn: Turn) -> Result<(), FeedError> {
        sqlx::query(GIVE_UP.text()).bind(turn.fence).bind(turn.token).execute(session).await?;
        Ok(())
    }
}
