//! The turn: taken, kept, given up.

use std::time::Duration;

use uuid::Uuid;

use super::{Columns, Read as _, SqlClient, values};
use crate::{
    feed::{duration, millis},
    holder,
    port::{
        FeedError, HeldTurn, KeptTurn, LeaseMark, Seat, SeatChoice, Shards, Turn, TurnAnswer,
        TurnRequest, Turns, UsedSeat,
    },
};

/// The texts of turns.
pub(crate) struct TurnTexts {
    /// 1 holder, 2 lease in milliseconds, 3 token, 4 and 5 a lease that is silent for longer than it lasts, 6 a seat that is
    /// not meant, 7 whether one without shards may be.
    pub(crate) take: &'static str,
    /// 1 a seat that is not meant: who has one with shards, the one whose lease ends first.
    pub(crate) holder: &'static str,
    /// 1 fence, 2 token, 3 lease in milliseconds, 4 its report.
    pub(crate) keep: &'static str,
    /// 1 fence, 2 token.
    pub(crate) give_up: &'static str,
    /// Those that are used: `seat`, `shards`, whether the lease lasts as `live`.
    pub(crate) used: &'static str,
    /// 1 fence, 2 token, 3 a seat, 4 shards.
    pub(crate) give: &'static str,
    /// 1 fence, 2 token of what is given up, 3 fence, 4 token of what gets its shards.
    pub(crate) merge: &'static str,
    /// Rings for the relays.
    pub(crate) ring: Option<&'static str>,
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
        let TurnRequest { holder, lease, seats, token, silent } = request;
        let (not, any) = match seats {
            SeatChoice::WithShards => (None, false),
            SeatChoice::Any => (None, true),
            SeatChoice::Other(seat) => (Some(i64::from(seat)), false),
        };
        let values = values![
            holder,
            millis(lease),
            token,
            silent.map(|mark| mark.fence),
            silent.map(|mark| mark.until.as_str()),
            not,
            i64::from(any),
        ];
        let texts = DB::turns();
        if let Some(row) = DB::fetch_optional(session, texts.take, values).await? {
            let (fence, outbox_id) = (row.read("epoch")?, DB::outbox_id(&row)?);
            let turn = Turn { fence, token, outbox_id, seat: seat(&row)? };
            return Ok(TurnAnswer::Taken(turn, shards(&row)?));
        }
        let row = DB::fetch_optional(session, texts.holder, values![not]).await?;
        Ok(match row {
            Some(row) => TurnAnswer::Held(held(&row)?),
            None => TurnAnswer::Alone,
        })
    }

    async fn keep_turn(
        session: &mut DB::Session,
        turn: Turn,
        lease: Duration,
        report: Option<&str>,
    ) -> Result<Option<KeptTurn>, FeedError> {
        let values = values![turn.fence, turn.token, millis(lease), report];
        let found = DB::fetch_optional(session, DB::turns().keep, values).await?;
        let kept = |row: &DB::Row| -> Result<_, sqlx::Error> {
            Ok(KeptTurn { outbox_id: DB::outbox_id(row)?, shards: shards(row)? })
        };
        Ok(found.as_ref().map(kept).transpose()?)
    }

    async fn used_seats(session: &mut DB::Session) -> Result<Vec<UsedSeat>, FeedError> {
        let found = DB::fetch_all(session, DB::turns().used, &[]).await?;
        let seat = |row: &DB::Row| -> Result<_, sqlx::Error> {
            Ok(UsedSeat { seat: seat(row)?, shards: shards(row)?, is_live: row.read("live")? })
        };
        Ok(found.iter().map(seat).collect::<Result<_, _>>()?)
    }

    async fn give_shards(
        session: &mut DB::Session,
        turn: Turn,
        to: Seat,
        given: Shards,
    ) -> Result<(), FeedError> {
        let values = values![turn.fence, turn.token, i64::from(to), i64::from(given.0)];
        DB::execute(session, DB::turns().give, values).await?;
        ring::<DB>(session).await?;
        Ok(())
    }

    async fn merge_turns(
        session: &mut DB::Session,
        of: Turn,
        into: Turn,
    ) -> Result<Option<Shards>, FeedError> {
        let values = values![of.fence, of.token, into.fence, into.token];
        let found = DB::fetch_optional(session, DB::turns().merge, values).await?;
        Ok(found.as_ref().map(shards).transpose()?)
    }

    async fn give_turn_up(session: &mut DB::Session, turn: Turn) -> Result<(), FeedError> {
        let values = values![turn.fence, turn.token];
        if DB::execute(session, DB::turns().give_up, values).await? > 0 {
            ring::<DB>(session).await?;
        }
        Ok(())
    }
}

/// Relays look who has what.
async fn ring<DB: TurnSql>(session: &mut DB::Session) -> Result<(), sqlx::Error> {
    if let Some(ring) = DB::turns().ring {
        DB::execute(session, ring, &[]).await?;
    }
    Ok(())
}

fn seat(row: &impl Columns) -> Result<Seat, sqlx::Error> {
    let seat: i64 = row.read("seat")?;
    Ok(Seat::try_from(seat).unwrap_or_default())
}

fn shards(row: &impl Columns) -> Result<Shards, sqlx::Error> {
    let shards: i64 = row.read("shards")?;
    Ok(Shards(u16::try_from(shards).unwrap_or_default()))
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
