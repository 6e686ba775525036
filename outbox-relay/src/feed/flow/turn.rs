//! The turn: taken, kept, given up.

use std::time::Duration;

use uuid::Uuid;

use super::{Columns, Read as _, SqlClient, values};
use crate::{
    feed::{duration, millis},
    holder,
    port::{FeedError, HeldTurn, LeaseMark, Turn, TurnAnswer, TurnRequest, Turns},
};

/// The texts of turns.
pub(crate) struct TurnTexts {
    /// 1 holder, 2 lease in milliseconds, 3 token, 4 and 5 a lease that is silent for longer than it lasts.
    pub(crate) take: &'static str,
    /// Who has it.
    pub(crate) holder: &'static str,
    /// 1 fence, 2 token, 3 lease in milliseconds, 4 its report.
    pub(crate) keep: &'static str,
    /// 1 fence, 2 token.
    pub(crate) give_up: &'static str,
}

/// A database with turns.
pub(crate) trait TurnSql: SqlClient {
    fn turns() -> &'static TurnTexts;
    /// Reads the column of this name.
    fn outbox_id(row: &Self::Row) -> Result<Uuid, sqlx::Error>;
}

impl<DB: TurnSql> Turns for DB {
    async fn take_turn(
        session: &mut DB::Session,
        request: TurnRequest<'_>,
    ) -> Result<TurnAnswer, FeedError> {
        let TurnRequest { holder, lease, token, silent } = request;
        let values = values![
            holder,
            millis(lease),
            token,
            silent.map(|mark| mark.fence),
            silent.map(|mark| mark.until.as_str()),
        ];
        let texts = DB::turns();
        if let Some(row) = DB::fetch_optional(session, texts.take, values).await? {
            let (fence, outbox_id) = (row.read("epoch")?, DB::outbox_id(&row)?);
            return Ok(TurnAnswer::Taken(Turn { fence, token, outbox_id }));
        }
        let row = DB::fetch_one(session, texts.holder, &[]).await?;
        Ok(TurnAnswer::Held(held(&row)?))
    }

    async fn keep_turn(
        session: &mut DB::Session,
        turn: Turn,
        lease: Duration,
        report: Option<&str>,
    ) -> Result<Option<Uuid>, FeedError> {
        let values = values![turn.fence, turn.token, millis(lease), report];
        let kept = DB::fetch_optional(session, DB::turns().keep, values).await?;
        Ok(kept.as_ref().map(DB::outbox_id).transpose()?)
    }

    async fn give_turn_up(session: &mut DB::Session, turn: Turn) -> Result<(), FeedError> {
        let values = values![turn.fence, turn.token];
        DB::execute(session, DB::turns().give_up, values).await?;
        Ok(())
    }
}

fn held(row: &impl Columns) -> Result<HeldTurn, sqlx::Error> {
    let rest: Option<i64> = row.read("rest")?;
    let lease: Option<i64> = row.read("lease")?;
    let holder: String = row.read("holder")?;
    Ok(HeldTurn {
        has_died: holder::has_died(&holder),
        holder: holder::name(&holder),
        left: duration(rest.unwrap_or(0)),
        lease: lease.map(duration),
        mark: LeaseMark { fence: row.read("fence")?, until: row.read("until")? },
    })
}
