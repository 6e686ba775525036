//! What operators ask for: intents on parked events, and what became of them.

use std::future::Future;

use super::{Columns, SqlClient, parked::filter_values, values};
use crate::port::{Forgotten, Intended, IntentRequest, IntentState, Intents, ParkedFilter, Weight};

/// The texts of intents.
pub(crate) struct IntentTexts {
    /// Behind the filter's parameters: 11 what, 12 force.
    pub(crate) weigh: &'static str,
    /// 1 consumer, 2 aggregate, 3 topic. The id of the event stays, by which it is found in the inbox.
    pub(crate) erase: &'static str,
    /// 1 consumer, 2 aggregate. An owner writes what is held anew when it changes.
    pub(crate) unhold: &'static str,
    /// 1 consumer, 2 who, 3 topic.
    pub(crate) forgot: &'static str,
}

/// A database with intents.
pub(crate) trait IntentSql: SqlClient {
    fn intents() -> &'static IntentTexts;
    /// See [`Intents::intend`]: a consumer's events that match, behind one, at most so many; in the open
    /// transaction.
    fn write_intents(
        conn: &mut Self::Connection,
        events: (&str, &ParkedFilter),
        order: &IntentRequest,
        range: (i64, u32),
    ) -> impl Future<Output = Result<Vec<Intended>, sqlx::Error>> + Send;
    /// The rows of outcomes. A release is done when its whole queue of then is gone.
    fn find_intent_states(
        conn: &mut Self::Connection,
        order: &IntentRequest,
        intended: &[Intended],
    ) -> impl Future<Output = Result<Vec<Self::Row>, sqlx::Error>> + Send;
}

impl<DB: IntentSql> Intents for DB {
    async fn weigh(
        conn: &mut DB::Connection,
        consumer: &str,
        filter: &ParkedFilter,
        order: &IntentRequest,
    ) -> Result<Vec<Weight>, sqlx::Error> {
        let values = filter_values(consumer, filter, values![order.intent.as_str(), order.force]);
        let rows = DB::fetch_all(conn, DB::intents().weigh, &values).await?;
        rows.iter().map(read_weight).collect()
    }

    async fn intend(
        conn: &mut DB::Connection,
        consumer: &str,
        filter: &ParkedFilter,
        order: &IntentRequest,
        after: i64,
        max: u32,
    ) -> Result<Vec<Intended>, sqlx::Error> {
        DB::begin_own(conn).await?;
        let intended = DB::write_intents(conn, (consumer, filter), order, (after, max)).await;
        DB::end_own(conn, intended).await
    }

    async fn forget(
        conn: &mut DB::Connection,
        consumer: &str,
        forgotten: &Forgotten,
    ) -> Result<u64, sqlx::Error> {
        DB::begin_own(conn).await?;
        let erased = erase::<DB>(conn, consumer, forgotten).await;
        DB::end_own(conn, erased).await
    }

    async fn intent_states(
        conn: &mut DB::Connection,
        order: &IntentRequest,
        intended: &[Intended],
    ) -> Result<Vec<IntentState>, sqlx::Error> {
        let rows = DB::find_intent_states(conn, order, intended).await?;
        rows.iter().map(read_state).collect()
    }
}

async fn erase<DB: IntentSql>(
    conn: &mut DB::Connection,
    consumer: &str,
    forgotten: &Forgotten,
) -> Result<u64, sqlx::Error> {
    let Forgotten { aggregate, topic, who } = forgotten;
    let texts = DB::intents();
    let erased = DB::execute(conn, texts.erase, values![consumer, aggregate, topic]).await?;
    DB::execute(conn, texts.unhold, values![consumer, aggregate]).await?;
    DB::execute(conn, texts.forgot, values![consumer, who, topic]).await?;
    Ok(erased)
}

fn read_weight(row: &impl Columns) -> Result<Weight, sqlx::Error> {
    Ok(Weight {
        topic: row.read("topic")?,
        partition: row.read("partition")?,
        owner: row.read("owner")?,
        owner_seen_seconds: row.read("owner_seen_seconds")?,
        standstill: row.read("standstill")?,
        retired: row.read("retired")?,
        events: row.read("events")?,
        free: row.read("free")?,
        behind: row.read("behind")?,
        doubtful: row.read("doubtful")?,
        same: row.read("same")?,
        opposite: row.read("opposite")?,
        following: row.read("following")?,
    })
}

/// An event on which an intent was written.
pub(crate) fn read_intended(row: &impl Columns) -> Result<Intended, sqlx::Error> {
    Ok(Intended {
        seq: row.read("parked_seq")?,
        offset: row.read("offset")?,
        last: row.read("last")?,
        partition_ref: row.read("partition_ref")?,
        aggregate: row.read("aggregate_key")?,
    })
}

fn read_state(row: &impl Columns) -> Result<IntentState, sqlx::Error> {
    Ok(IntentState {
        seq: row.read("seq")?,
        rest: row.read("rest")?,
        pending: row.read("pending")?,
        reason: row.read("reason")?,
        error: row.read("error")?,
    })
}
