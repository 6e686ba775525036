//! The parking store, beside what a store writes into it.

use std::future::Future;

use super::{Read as _, SqlClient, values};
use crate::{
    feed::duration,
    port::{CLAIM_MAX, DueDestination, FeedError, Parked, Row, Shards, Turn},
};

/// The texts of the parking store.
pub(crate) struct ParkingTexts {
    /// 1 fence, 2 shards: `destination`, and the milliseconds until its first row may go, those aside that are claimed in this turn.
    pub(crate) due_destinations: &'static str,
    /// 1 fence, 2 token.
    pub(crate) end_claims: &'static str,
}

/// A database with a parking store.
pub(crate) trait ParkingSql: SqlClient {
    fn parking_texts() -> &'static ParkingTexts;
    /// Claims rows, in any order; `None`: another has the turn.
    fn claim_rows(
        session: &mut Self::Session,
        turn: (Turn, Shards),
        destination: &str,
        rows_max: usize,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Option<Vec<Row>>, FeedError>> + Send;
    /// Makes ready what is behind no other row.
    fn release(
        session: &mut Self::Session,
        after: (&str, &str),
    ) -> impl Future<Output = Result<Option<(String, String)>, FeedError>> + Send;
}

impl<DB: ParkingSql> Parked for DB {
    async fn claim(
        session: &mut DB::Session,
        turn: (Turn, Shards),
        destination: &str,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<Option<Vec<Row>>, FeedError> {
        let rows_max = rows_max.min(CLAIM_MAX);
        let mut rows = DB::claim_rows(session, turn, destination, rows_max, bytes_max).await?;
        if let Some(rows) = &mut rows {
            rows.sort_by_key(|row| row.id.seq);
        }
        Ok(rows)
    }

    async fn due_destinations(
        session: &mut DB::Session,
        turn: Turn,
        shards: Shards,
    ) -> Result<Vec<DueDestination>, FeedError> {
        let text = DB::parking_texts().due_destinations;
        let values = values![turn.fence, i64::from(shards.0)];
        let found = DB::fetch_all(session, text, values).await?;
        let due = |row: &DB::Row| -> Result<_, sqlx::Error> {
            Ok(DueDestination { destination: row.at(0)?, after: duration(row.at(1)?) })
        };
        Ok(found.iter().map(due).collect::<Result<_, _>>()?)
    }

    async fn end_claims(session: &mut DB::Session, turn: Turn) -> Result<(), FeedError> {
        let values = values![turn.fence, turn.token];
        DB::execute(session, DB::parking_texts().end_claims, values).await?;
        Ok(())
    }

    async fn release_orphans(
        session: &mut DB::Session,
        after: (&str, &str),
    ) -> Result<Option<(String, String)>, FeedError> {
        DB::release(session, after).await
    }
}
