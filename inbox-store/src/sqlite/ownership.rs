//! Take-over, watermark, letting go.

use inbox_engine::{Cut, Epoch, NextOffset, Rule, Standstill, Statement};
use outbox_core::{IdScope, TopicPartition};
use sqlx::{Row, Sqlite, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    inspection, keys, lanes, numbers, release,
    session::{begin_own, end_own},
    suspects, watermarks,
};
use crate::{
    port::{
        Lanes, Note, Ownerships, Scope, TakeOver, TakeOverError, Taken, WatermarkMove,
        release::DueQueue,
    },
    shared::{sixteen, unexpected},
    takeover::{self, PartitionState},
};

const CONSUMER: &str = "SELECT consumer_ref, inbox_id FROM inbox_consumers WHERE consumer = ?1";
const ADD_CONSUMER: &str =
    "INSERT INTO inbox_consumers (consumer, inbox_id) VALUES (?1, randomblob(16))
    ON CONFLICT (consumer) DO NOTHING";
/// A build before the column has added the consumer.
const NAME_INBOX: &str =
    "UPDATE inbox_consumers SET inbox_id = randomblob(16) WHERE consumer = ?1 AND inbox_id IS NULL";

/// ?1 consumer, ?2 topic, ?3 partition.
const PARTITIONS: &str = r#"SELECT partition_ref, topic_id, lane_count, lane_rule, remapped_below, key_rule, key_epoch,
    id_scope_epoch IS NOT NULL AS within_topic,
    next_lane_count, next_lane_rule, epoch, watermark,
    watermark_leader_epoch, record_next, record_leader_epoch, log_end_seen,
    owner_instance, owner_incarnation, retired_at IS NOT NULL AS retired,
    unixepoch('subsec') - owner_seen / 1000.0 AS owner_seen_seconds
FROM inbox_partitions WHERE consumer_ref = ?1 AND topic = ?2 AND "partition" = ?3
ORDER BY partition_ref"#;

/// A consumer's first start takes minutes: a partition that turns up later was added later, and one of a
/// topic after a retired one of its name was created later. And whether the ids that the consumer has hold within
/// their topic.
const FIRST_START: &str = "SELECT NOT EXISTS (SELECT 1 FROM inbox_partitions WHERE consumer_ref = ?1
    AND topic = ?2 AND (created_at < (unixepoch('subsec') - 600) * 1000 OR retired_at IS NOT NULL)),
    (SELECT id_scope_epoch IS NOT NULL FROM inbox_partitions WHERE consumer_ref = ?1 AND retired_at IS NULL LIMIT 1)";

/// ?1 consumer, ?2 topic, ?3 id, ?4 partition, ?5 lanes, ?6 lane rule, ?7 watermark, ?8 whether ids hold
/// within their topic.
const ADD_PARTITION: &str = r#"INSERT INTO inbox_partitions
    (consumer_ref, topic, topic_id, "partition", lane_count, lane_rule, watermark, id_scope_epoch)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?8 THEN 0 END) ON CONFLICT (consumer_ref, topic, topic_id, "partition") DO NOTHING
RETURNING partition_ref"#;

/// Only while [`Rule::StartIsWritten`] is off: a start that nothing was settled after is forgotten.
const FORGET_START: &str =
    "DELETE FROM inbox_partitions AS p WHERE partition_ref = ?1 AND NOT EXISTS
    (SELECT 1 FROM inbox_lanes l WHERE l.partition_ref = ?1 AND l.last_offset >= p.watermark)";

/// ?1 partition, ?2 epoch, ?3 name, ?4 instance, ?5 incarnation, ?6 topic id, ?7 lanes, ?8 lane rule,
/// ?9 remapped below, ?10 key rule, ?11 whether rows are parked, ?12 and ?13 the lanes that wait. An epoch is written with
/// `id_scope_epoch`, where that is set.
const OWN: &str = "UPDATE inbox_partitions SET epoch = ?2, owner = ?3, owner_instance = ?4,
    owner_incarnation = ?5, owner_seen = CAST(unixepoch('subsec') * 1000 AS INTEGER), topic_id = ?6,
    lane_count = ?7, lane_rule = ?8, remapped_below = ?9, key_rule = ?10,
    key_epoch = CASE WHEN ?11 THEN ?2 END, id_scope_epoch = id_scope_epoch - epoch + ?2,
    next_lane_count = ?12, next_lane_rule = ?13, retired_at = NULL, standstill = NULL, held_lanes = NULL
WHERE partition_ref = ?1";

/// ?1 partition, ?2 reason, ?3 the end of the log, if it is to be remembered.
const STAND_STILL: &str = "UPDATE inbox_partitions SET standstill = ?2,
    log_end_seen = coalesce(min(log_end_seen, ?3), log_end_seen, ?3) WHERE partition_ref = ?1";

/// ?1 partition, ?2 epoch, ?3 old, ?4 new, ?5 leader epoch, ?6 expected, ?7 behind the last record,
/// ?8 its leader epoch.
static WATERMARK: Statement = Statement::new(
    "UPDATE inbox_partitions AS w SET watermark = ?4, watermark_leader_epoch = ?5,
    record_next = ?7, record_leader_epoch = ?8,
    log_end_seen = CASE WHEN ?4 > ?3 THEN NULL ELSE log_end_seen END,
    owner_seen = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE w.partition_ref = ?1 AND w.epoch = ?2 AND w.watermark = ?3 AND w.watermark <= ?4
AND NOT EXISTS (SELECT 1 FROM json_each(?6) x
    LEFT JOIN inbox_lanes l ON l.partition_ref = ?1 AND l.lane = x.key
    WHERE l.epoch IS NOT ?2 OR l.last_offset < x.value)",
    &[
        Cut::new(
            Rule::WatermarkCas,
            " AND w.epoch = ?2 AND w.watermark = ?3 AND w.watermark <= ?4",
            "",
        ),
        Cut::new(
            Rule::WatermarkChecksLanes,
            "AND NOT EXISTS (SELECT 1 FROM json_each(?6) x
    LEFT JOIN inbox_lanes l ON l.partition_ref = ?1 AND l.lane = x.key
    WHERE l.epoch IS NOT ?2 OR l.last_offset < x.value)",
            "",
        ),
    ],
);

const DISOWN: &str = "UPDATE inbox_partitions SET owner = NULL, owner_instance = NULL,
    owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = ?1 AND epoch = ?2";

impl Ownerships for Sqlite {
    async fn take_over(
        conn: &mut SqliteConnection,
        request: &TakeOver,
    ) -> Result<Taken, TakeOverError> {
        begin_own(conn).await?;
        let answer = take_over(conn, request).await;
        end_own(conn, answer).await?.map_err(TakeOverError::Standstill)
    }

    async fn write_watermark(
        conn: &mut SqliteConnection,
        scope: &Scope,
        change: &WatermarkMove,
    ) -> Result<bool, sqlx::Error> {
        begin_own(conn).await?;
        let written = watermark(conn, scope, change).await;
        end_own(conn, written).await
    }

    async fn write_watermarks(
        conn: &mut SqliteConnection,
        changes: &[(Scope, WatermarkMove)],
    ) -> Result<Vec<bool>, sqlx::Error> {
        begin_own(conn).await?;
        let written = watermarks::write(conn, changes).await;
        end_own(conn, written).await
    }

    async fn disown(conn: &mut SqliteConnection, scopes: &[Scope]) -> Result<(), sqlx::Error> {
        begin_own(conn).await?;
        let done = disown(conn, scopes).await;
        end_own(conn, done).await
    }

    async fn find_due(
        conn: &mut SqliteConnection,
        looks: &[(Scope, NextOffset)],
        max: usize,
    ) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
        release::find_due(conn, looks, max).await
    }

    async fn write_words(
        conn: &mut SqliteConnection,
        note: Note,
        words: &[(Scope, Option<String>)],
    ) -> Result<(), sqlx::Error> {
        inspection::write_words(conn, note, words).await
    }
}

pub(super) async fn watermark(
    conn: &mut SqliteConnection,
    scope: &Scope,
    change: &WatermarkMove,
) -> Result<bool, sqlx::Error> {
    let written = sqlx::query(WATERMARK.text())
        .bind(scope.partition_ref)
        .bind(scope.epoch.0)
        .bind(change.old.0)
        .bind(change.new.0)
        .bind(change.leader_epoch.0)
        .bind(numbers(change.expected.iter().copied()))
        .bind(change.record.next.0)
        .bind(change.record.leader_epoch.0)
        .execute(conn)
        .await?;
    Ok(written.rows_affected() == 1)
}

async fn disown(conn: &mut SqliteConnection, scopes: &[Scope]) -> Result<(), sqlx::Error> {
    for scope in scopes {
        sqlx::query(DISOWN)
            .bind(scope.partition_ref)
            .bind(scope.epoch.0)
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

/// A standstill commits what it wrote for people, and nothing else.
type Answer = Result<Taken, Standstill>;

async fn take_over(
    conn: &mut SqliteConnection,
    request: &TakeOver,
) -> Result<Answer, TakeOverError> {
    let (consumer_ref, inbox_id) = consumer(conn, &request.consumer).await?;
    let mut found = find(conn, consumer_ref, request).await?;
    if !Rule::StartIsWritten.on() {
        found = forget_start(conn, found).await?;
    }
    let row = match found {
        Found::Row(row) => row,
        Found::StandsStill(row, reason) => return stand_still(conn, &row, request, reason).await,
        Found::Nothing(retired) => {
            match add(conn, (consumer_ref, inbox_id), request, retired).await? {
                Ok(row) => row,
                Err(reason) => return Ok(Err(reason)),
            }
        }
    };
    if let Err(reason) = takeover::check_owner(&row, request) {
        return Ok(Err(reason));
    }
    let resume = match takeover::resume_at(&row, request) {
        Ok(resume) => resume,
        Err(reason) => return stand_still(conn, &row, request, reason).await,
    };
    let epoch = takeover::next_epoch(&row, request);
    let had = (row.lane_count, row.lane_rule.clone());
    let row = lanes::choose(conn, row, request).await?;
    let held = match takeover::lanes(&row, request) {
        Ok(held) => held,
        Err(reason) => return stand_still(conn, &row, request, reason).await,
    };
    // Nothing is written before everything is known that a standstill may follow from.
    let keys = match keys::other_keys(conn, &row, request, &held).await? {
        Ok(keys) => keys,
        Err(reason) => return stand_still(conn, &row, request, reason).await,
    };
    lanes::make(conn, &row, had != (row.lane_count, row.lane_rule.clone())).await?;
    keys::set(conn, row.partition_ref, &keys).await?;
    let lanes = lanes::raise(conn, &row, epoch).await?;
    let incarnation = request.owner.incarnation;
    let suspects = suspects::left(conn, row.partition_ref, row.watermark, incarnation).await?;
    own(conn, &row, epoch, request, &held).await?;
    let taken =
        takeover::taken((request, &row), (consumer_ref, inbox_id), epoch, (held, lanes), resume)?;
    Ok(Ok(Taken { suspects, ..taken }))
}

/// The consumer, which is added if need be, and the identity of its inbox.
pub(super) async fn consumer(
    conn: &mut SqliteConnection,
    name: &str,
) -> Result<(i64, Uuid), sqlx::Error> {
    let known: Option<(i64, Option<Vec<u8>>)> =
        sqlx::query_as(CONSUMER).bind(name).fetch_optional(&mut *conn).await?;
    if let Some((consumer_ref, Some(inbox_id))) = known {
        return Ok((consumer_ref, Uuid::from_bytes(sixteen(&inbox_id)?)));
    }
    sqlx::query(ADD_CONSUMER).bind(name).execute(&mut *conn).await?;
    sqlx::query(NAME_INBOX).bind(name).execute(&mut *conn).await?;
    let (consumer_ref, inbox_id): (i64, Vec<u8>) =
        sqlx::query_as(CONSUMER).bind(name).fetch_one(conn).await?;
    Ok((consumer_ref, Uuid::from_bytes(sixteen(&inbox_id)?)))
}

enum Found {
    Row(PartitionState),
    StandsStill(PartitionState, Standstill),
    /// Nothing, or only (true) what a person has retired.
    Nothing(bool),
}

/// The partition's row; the transaction is the lock.
async fn find(
    conn: &mut SqliteConnection,
    consumer_ref: i64,
    request: &TakeOver,
) -> Result<Found, sqlx::Error> {
    let rows = sqlx::query(PARTITIONS)
        .bind(consumer_ref)
        .bind(&*request.partition.topic)
        .bind(request.partition.partition)
        .fetch_all(conn)
        .await?;
    let rows = rows.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    let retired = !rows.is_empty();
    Ok(match takeover::choose(rows, request) {
        Ok(Some(row)) => Found::Row(row),
        Ok(None) => Found::Nothing(retired),
        Err(recreated) => Found::StandsStill(recreated.0, recreated.1),
    })
}

/// As if the start had not been written: [`Rule::StartIsWritten`] is off.
async fn forget_start(conn: &mut SqliteConnection, found: Found) -> Result<Found, sqlx::Error> {
    let Found::Row(row) = found else { return Ok(found) };
    let forgotten = sqlx::query(FORGET_START).bind(row.partition_ref).execute(conn).await?;
    Ok(if forgotten.rows_affected() == 1 { Found::Nothing(false) } else { Found::Row(row) })
}

fn state(row: &SqliteRow) -> Result<PartitionState, sqlx::Error> {
    let parked: Option<i64> = row.try_get("key_epoch")?;
    Ok(PartitionState {
        partition_ref: row.try_get("partition_ref")?,
        topic_id: sixteen(row.try_get("topic_id")?)?,
        lane_count: row.try_get("lane_count")?,
        lane_rule: row.try_get("lane_rule")?,
        remapped_below: row.try_get("remapped_below")?,
        key_rule: parked.is_some().then(|| row.try_get("key_rule")).transpose()?,
        next_lanes: lanes::waiting(row)?,
        id_scope: takeover::id_scope(row.try_get("within_topic")?),
        epoch: row.try_get("epoch")?,
        watermark: row.try_get("watermark")?,
        watermark_leader_epoch: row.try_get("watermark_leader_epoch")?,
        record_next: row.try_get("record_next")?,
        record_leader_epoch: row.try_get("record_leader_epoch")?,
        log_end_seen: row.try_get("log_end_seen")?,
        owner_instance: row.try_get("owner_instance")?,
        owner_incarnation: row.try_get("owner_incarnation")?,
        owner_seen_seconds: row.try_get("owner_seen_seconds")?,
        retired: row.try_get("retired")?,
    })
}

/// The row of a partition that the database does not know, with its first watermark.
async fn add(
    conn: &mut SqliteConnection,
    (consumer_ref, inbox_id): (i64, Uuid),
    request: &TakeOver,
    retired: bool,
) -> Result<Result<PartitionState, Standstill>, sqlx::Error> {
    let topic = &*request.partition.topic;
    let before: (bool, Option<bool>) =
        sqlx::query_as(FIRST_START).bind(consumer_ref).bind(topic).fetch_one(&mut *conn).await?;
    let watermark = match takeover::start(request, before, inbox_id, retired) {
        Ok(watermark) => watermark,
        Err(reason) => return Ok(Err(reason)),
    };
    let rules = (request.lanes.count, request.lanes.placement.lane_rule(), request.id_scope);
    insert(conn, consumer_ref, (&request.partition, request.topic_id), rules, watermark).await?;
    // Another process may have been faster: what counts is what is there now.
    match find(conn, consumer_ref, request).await? {
        Found::Row(row) => Ok(Ok(row)),
        Found::StandsStill(_, reason) => Ok(Err(reason)),
        Found::Nothing(_) => Err(unexpected(format!(
            "the row of {topic}/{} in inbox_partitions was removed while it was taken over",
            request.partition.partition
        ))),
    }
}

/// Adds a partition's row; nothing when there is one.
pub(super) async fn insert(
    conn: &mut SqliteConnection,
    consumer_ref: i64,
    (partition, topic_id): (&TopicPartition, [u8; 16]),
    (lane_count, lane_rule, id_scope): (u16, &str, IdScope),
    watermark: NextOffset,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(ADD_PARTITION)
        .bind(consumer_ref)
        .bind(&*partition.topic)
        .bind(&topic_id[..])
        .bind(partition.partition)
        .bind(i32::from(lane_count))
        .bind(lane_rule)
        .bind(watermark.0)
        .bind(id_scope == IdScope::Topic)
        .fetch_optional(conn)
        .await
}

/// Writes why, for `status`; the epoch stays.
async fn stand_still(
    conn: &mut SqliteConnection,
    row: &PartitionState,
    request: &TakeOver,
    reason: Standstill,
) -> Result<Answer, TakeOverError> {
    sqlx::query(STAND_STILL)
        .bind(row.partition_ref)
        .bind(reason.to_string())
        .bind(takeover::log_end_seen(&reason, request))
        .execute(conn)
        .await?;
    Ok(Err(reason))
}

async fn own(
    conn: &mut SqliteConnection,
    row: &PartitionState,
    epoch: Epoch,
    request: &TakeOver,
    held: &Lanes,
) -> Result<(), sqlx::Error> {
    let parked = keys::are_there(conn, row.partition_ref).await?;
    sqlx::query(OWN)
        .bind(row.partition_ref)
        .bind(epoch.0)
        .bind(&request.owner.name)
        .bind(&request.owner.instance_id)
        .bind(request.owner.incarnation)
        .bind(takeover::topic_id(row, request).to_vec())
        .bind(row.lane_count)
        .bind(&row.lane_rule)
        .bind(row.remapped_below)
        .bind(held.placement.key_rule())
        .bind(parked)
        .bind(row.next_lanes.as_ref().map(|(count, _)| *count))
        .bind(row.next_lanes.as_ref().map(|(_, rule)| rule))
        .execute(conn)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::WATERMARK.check();
    }
}
