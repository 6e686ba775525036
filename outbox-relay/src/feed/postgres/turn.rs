//! The turn.

use std::time::Duration;

use outbox_core::keeps_statements;
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use crate::{
    feed::{left, millis},
    port::{FeedError, Turn, TurnAnswer, Turns},
};

/// $1 holder, $2 lease in milliseconds.
const TAKE: &str = "UPDATE outbox_relays SET epoch = epoch + 1, owner = $1, taken_at = now(),
    lease_until = now() + $2 * interval '1 millisecond', standstill = NULL
WHERE lease_until IS NULL OR lease_until <= now() RETURNING epoch, outbox_id";

const HOLDER: &str = "SELECT coalesce(owner, ''),
    (extract(epoch FROM lease_until - now()) * 1000)::bigint FROM outbox_relays";

/// $1 fence, $2 lease in milliseconds, $3 why it ships nothing.
const KEEP: &str = "UPDATE outbox_relays SET lease_until = now() + $2 * interval '1 millisecond',
    standstill = $3 WHERE epoch = $1";

/// $1 fence.
const GIVE_UP: &str = "WITH mine AS (UPDATE outbox_relays SET owner = NULL, lease_until = NULL,
    standstill = NULL WHERE epoch = $1 RETURNING 1)
SELECT pg_notify('outbox_relays', 'outbox_events'::regclass::oid::text)::text FROM mine";

impl Turns for Postgres {
    async fn take_turn(
        session: &mut PgConnection,
        holder: &str,
        lease: Duration,
    ) -> Result<TurnAnswer, FeedError> {
        let taken: Option<(i64, Uuid)> = sqlx::query_as(TAKE)
            .persistent(keeps_statements(session))
            .bind(holder)
            .bind(millis(lease))
            .fetch_optional(&mut *session)
            .await?;
        if let Some((fence, outbox_id)) = taken {
            return Ok(TurnAnswer::Taken(Turn { fence, outbox_id }));
        }
        let (holder, rest): (String, Option<i64>) =
            sqlx::query_as(HOLDER).persistent(keeps_statements(session)).fetch_one(session).await?;
        Ok(TurnAnswer::Held { holder, left: left(rest) })
    }

    async fn keep_turn(
        session: &mut PgConnection,
        fence: i64,
        lease: Duration,
        standstill: Option<&str>,
    ) -> Result<bool, FeedError> {
        let kept = sqlx::query(KEEP)
            .persistent(keeps_statements(session))
            .bind(fence)
            .bind(millis(lease))
            .bind(standstill)
            .execute(session)
            .await?;
        Ok(kept.rows_affected() == 1)
    }

    async fn give_turn_up(session: &mut PgConnection, fence: i64) -> Result<(), FeedError> {
        sqlx::query(GIVE_UP)
            .persistent(keeps_statements(session))
            .bind(fence)
            .execute(session)
            .await?;
        Ok(())
    }
}
