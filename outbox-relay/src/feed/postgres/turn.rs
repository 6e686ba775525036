//! The turn.

use std::time::Duration;

use inbox_engine::internal::{Cut, Rule, Statement};
use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres, Row as _};
use uuid::Uuid;

use crate::{
    feed::{held, millis},
    port::{FeedError, Turn, TurnAnswer, TurnRequest, Turns},
};

/// $1 holder, $2 lease in milliseconds, $3 token, $4 and $5 a lease that is silent for longer than it lasts.
const TAKE: &str = "UPDATE outbox_relays SET epoch = epoch + 1, token = $3, token_epoch = epoch + 1, lease_ms = $2,
    owner = $1, taken_at = now(), lease_until = now() + $2 * interval '1 millisecond', standstill = NULL
WHERE lease_until IS NULL OR lease_until <= now() OR (epoch = $4 AND lease_until::text = $5) RETURNING epoch, outbox_id";

const HOLDER: &str =
    "SELECT coalesce(owner, '') AS holder, coalesce(lease_until::text, '') AS until,
    (extract(epoch FROM lease_until - now()) * 1000)::bigint AS rest, epoch AS fence,
    CASE WHEN token_epoch = epoch THEN lease_ms END AS lease FROM outbox_relays";

/// $1 fence, $2 token, $3 lease in milliseconds, $4 why it ships nothing.
static KEEP: Statement = Statement::new(
    "UPDATE outbox_relays SET lease_until = now() + $3 * interval '1 millisecond',
    standstill = $4 WHERE epoch = $1 AND token = $2 RETURNING outbox_id",
    &[Cut::new(Rule::TurnHasToken, "token = $2", "$2::uuid IS NOT NULL")],
);

/// $1 fence, $2 token.
static GIVE_UP: Statement = Statement::new(
    "WITH mine AS (UPDATE outbox_relays SET owner = NULL, lease_until = NULL,
    standstill = NULL WHERE epoch = $1 AND token = $2 RETURNING 1)
SELECT pg_notify('outbox_relays', 'outbox_events'::regclass::oid::text)::text FROM mine",
    &[Cut::new(Rule::TurnHasToken, "token = $2", "$2::uuid IS NOT NULL")],
);

impl Turns for Postgres {
    async fn take_turn(
        session: &mut PgConnection,
        request: TurnRequest<'_>,
    ) -> Result<TurnAnswer, FeedError> {
        let TurnRequest { holder, lease, token, silent } = request;
        let taken: Option<(i64, Uuid)> = sqlx::query_as(TAKE)
            .persistent(keeps_statements(session))
            .bind(holder)
            .bind(millis(lease))
            .bind(token)
            .bind(silent.map(|mark| mark.fence))
            .bind(silent.map(|mark| mark.until.as_str()))
            .fetch_optional(&mut *session)
            .await?;
        if let Some((fence, outbox_id)) = taken {
            return Ok(TurnAnswer::Taken(Turn { fence, token, outbox_id }));
        }
        let row =
            sqlx::query(HOLDER).persistent(keeps_statements(session)).fetch_one(session).await?;
        Ok(TurnAnswer::Held(held!(row)))
    }

    async fn keep_turn(
        session: &mut PgConnection,
        turn: Turn,
        lease: Duration,
        standstill: Option<&str>,
    ) -> Result<Option<Uuid>, FeedError> {
        let kept: Option<Uuid> = sqlx::query_scalar(KEEP.text())
            .persistent(keeps_statements(session))
            .bind(turn.fence)
            .bind(turn.token)
            .bind(millis(lease))
            .bind(standstill)
            .fetch_optional(session)
            .await?;
        Ok(kept)
    }

    async fn give_turn_up(session: &mut PgConnection, turn: Turn) -> Result<(), FeedError> {
        sqlx::query(GIVE_UP.text())
            .persistent(keeps_statements(session))
            .bind(turn.fence)
            .bind(turn.token)
            .execute(session)
            .await?;
        Ok(())
    }
}
