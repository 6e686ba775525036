//! Looking at parked events and at what operators did.

use uuid::Uuid;

use super::{Columns, Read as _, SqlClient, Value, values};
use crate::port::{
    AuditFilter, AuditRow, Page, ParkedContent, ParkedCounts, ParkedEvents, ParkedFilter,
    ParkedRow, When,
};

/// The texts of looks at parked events. The first parameters of those with a filter are those of [`filter_values`].
pub(crate) struct ParkedTexts {
    /// Behind the filter's parameters: 11 whether followers, too, 12 at most.
    pub(crate) oldest: &'static str,
    /// As `oldest`, the other way round.
    pub(crate) newest: &'static str,
    /// The filter's parameters alone.
    pub(crate) counts: &'static str,
    /// 1 consumer, 2 number.
    pub(crate) kept: &'static str,
    /// 1 consumer, 2 topic, 3 partition, 4 offset, 5 who, 6 what, 7 limit.
    pub(crate) acts: &'static str,
}

/// The first event of the queue that `q` is in.
macro_rules! head {
    () => {
        r#"(SELECT h.parked_seq FROM inbox_parked h
    WHERE h.partition_ref = q.partition_ref AND h.aggregate_key = q.aggregate_key
    ORDER BY h."offset", h.leader_epoch LIMIT 1)"#
    };
}
pub(crate) use head;

/// How many events are behind `q` in its queue.
macro_rules! behind {
    () => {
        r#"(SELECT count(*) FROM inbox_parked f WHERE f.partition_ref = q.partition_ref
    AND f.aggregate_key = q.aggregate_key AND (f."offset", f.leader_epoch) > (q."offset", q.leader_epoch))"#
    };
}
pub(crate) use behind;

/// A database with parked events.
pub(crate) trait ParkedSql: SqlClient {
    fn parked() -> &'static ParkedTexts;
}

/// The parameters of a statement with a filter: 1 the consumer, 2 to 10 the filter, more behind them.
pub(crate) fn filter_values<'a>(
    consumer: &'a str,
    filter: &'a ParkedFilter,
    more: &[Value<'a>],
) -> Vec<Value<'a>> {
    let filter: &[Value<'a>] = values![
        consumer,
        filter.seq,
        filter.queue_of,
        &filter.topic,
        filter.partition,
        &filter.event_type,
        &filter.aggregate,
        &filter.reason,
        &filter.error,
        filter.when.map(When::as_str),
    ];
    [filter, more].concat()
}

impl<DB: ParkedSql> ParkedEvents for DB {
    async fn list(
        conn: &mut DB::Connection,
        consumer: &str,
        filter: &ParkedFilter,
        page: Page,
    ) -> Result<Vec<ParkedRow>, sqlx::Error> {
        let texts = DB::parked();
        let text = if page.newest { texts.newest } else { texts.oldest };
        let values =
            filter_values(consumer, filter, values![filter.followers, i64::from(page.limit)]);
        let rows = DB::fetch_all(conn, text, &values).await?;
        rows.iter().map(row).collect()
    }

    async fn counts(
        conn: &mut DB::Connection,
        consumer: &str,
        filter: &ParkedFilter,
    ) -> Result<ParkedCounts, sqlx::Error> {
        let values = filter_values(consumer, filter, &[]);
        let row = DB::fetch_one(conn, DB::parked().counts, &values).await?;
        Ok(ParkedCounts {
            events: row.read("events")?,
            aggregates: row.read("aggregates")?,
            followers: row.read("followers")?,
            due: row.read("due")?,
            scheduled: row.read("scheduled")?,
            waiting: row.read("waiting")?,
        })
    }

    async fn content(
        conn: &mut DB::Connection,
        consumer: &str,
        seq: i64,
    ) -> Result<Option<ParkedContent>, sqlx::Error> {
        let row = DB::fetch_optional(conn, DB::parked().kept, values![consumer, seq]).await?;
        row.map(|row| {
            Ok(ParkedContent {
                record: row.read("record")?,
                errors: row.read("errors")?,
                fingerprint: row.read("fingerprint")?,
            })
        })
        .transpose()
    }

    async fn acts(
        conn: &mut DB::Connection,
        consumer: &str,
        filter: &AuditFilter,
        limit: u32,
    ) -> Result<Vec<AuditRow>, sqlx::Error> {
        let values = values![
            consumer,
            &filter.topic,
            filter.partition,
            filter.offset,
            &filter.who,
            &filter.what,
            i64::from(limit),
        ];
        let rows = DB::fetch_all(conn, DB::parked().acts, values).await?;
        rows.iter().map(act).collect()
    }
}

fn row(row: &impl Columns) -> Result<ParkedRow, sqlx::Error> {
    let event_id: Uuid = row.read("event_id")?;
    Ok(ParkedRow {
        seq: row.read("parked_seq")?,
        topic: row.read("topic")?,
        partition: row.read("partition")?,
        offset: row.read("offset")?,
        leader_epoch: row.read("leader_epoch")?,
        lane: row.read("lane")?,
        event_id: event_id.to_string(),
        event_type: row.read("event_type")?,
        aggregate: row.read("aggregate")?,
        reason: row.read("reason")?,
        attempts: row.read("attempts")?,
        releases: row.read("releases")?,
        parked_at: row.read("parked_at")?,
        due_at: row.read("due_at")?,
        due_seconds: row.read("due_seconds")?,
        intent: row.read("intent")?,
        intent_by: row.read("intent_by")?,
        intent_at: row.read("intent_at")?,
        error: row.read("error")?,
        head: row.read("head")?,
        followers: row.read("followers")?,
        retired: row.read("retired")?,
    })
}

fn act(row: &impl Columns) -> Result<AuditRow, sqlx::Error> {
    let event_id: Option<Uuid> = row.read("event_id")?;
    Ok(AuditRow {
        audit: row.read("audit_seq")?,
        at: row.read("at")?,
        who: row.read("who")?,
        what: row.read("what")?,
        why: row.read("why")?,
        topic: row.read("topic")?,
        partition: row.read("partition")?,
        offset: row.read("offset")?,
        event_id: event_id.map(|id| id.to_string()),
        aggregate: row.read("aggregate")?,
        event_type: row.read("event_type")?,
    })
}
