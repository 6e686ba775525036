//! Take-over, watermark, letting go.

use std::future::Future;

use inbox_engine::internal::{Epoch, NextOffset, Rule, Standstill};
use outbox_core::{IdScope, TopicPartition};
use uuid::Uuid;

use super::{
    Columns, Read as _, keys, keys::KeySql, lanes, lanes::LaneSql, suspects, suspects::SuspectSql,
    values,
};
use crate::{
    port::{
        Lanes, Note, Ownerships, Scope, TakeOver, TakeOverError, Taken, WatermarkMove,
        release::DueQueue,
    },
    shared::unexpected,
    takeover::{self, PartitionState},
};

/// The texts of ownership.
pub(crate) struct OwnershipTexts {
    /// 1 consumer.
    pub(crate) consumer: &'static str,
    /// 1 consumer. Nothing when it is there.
    pub(crate) add_consumer: &'static str,
    /// 1 consumer. Gives its inbox an identity, where a build before the column may have added the consumer
    /// without one.
    pub(crate) name_inbox: Option<&'static str>,
    /// 1 consumer, 2 topic, 3 partition. Locked.
    pub(crate) partitions: &'static str,
    /// 1 consumer, 2 topic. How many partitions the topic had at the consumer's first start, nothing when it has none
    /// of the topic yet: one with a higher number was added later. After a retired one of its name all of a topic were
    /// created later. And whether the ids that the consumer has hold within their topic.
    pub(crate) first_start: &'static str,
    /// 1 consumer, 2 topic, 3 id, 4 partition, 5 lanes, 6 lane rule, 7 watermark, 8 whether ids hold within their
    /// topic, 9 how many partitions the topic had at the first start.
    pub(crate) add_partition: &'static str,
    /// 1 partition. Only while [`Rule::StartIsWritten`] is off: a start that nothing was settled after is forgotten.
    pub(crate) forget_start: &'static str,
    /// 1 partition, 2 epoch, 3 name, 4 instance, 5 incarnation, 6 topic id, 7 lanes, 8 lane rule, 9 remapped below,
    /// 10 key rule, 11 whether rows are parked, 12 and 13 the lanes that wait. An epoch is written with
    /// `id_scope_epoch`, where that is set.
    pub(crate) own: &'static str,
    /// 1 partition, 2 reason, 3 the end of the log, if it is to be remembered.
    pub(crate) stand_still: &'static str,
    /// 1 partition, 2 epoch, 3 old, 4 new, 5 leader epoch, 6 expected, 7 behind the last record, 8 its leader
    /// epoch.
    pub(crate) watermark: &'static str,
}

/// A database with owners of partitions. The functions are those of [`Ownerships`], in an open transaction.
pub(crate) trait OwnershipSql: LaneSql + KeySql + SuspectSql {
    fn ownership() -> &'static OwnershipTexts;
    fn move_watermarks(
        conn: &mut Self::Connection,
        changes: &[(Scope, WatermarkMove)],
    ) -> impl Future<Output = Result<Vec<bool>, sqlx::Error>> + Send;
    fn let_go(
        conn: &mut Self::Connection,
        scopes: &[Scope],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// In a transaction only where a read needs one.
    fn find_queues(
        conn: &mut Self::Connection,
        looks: &[(Scope, NextOffset)],
        max: i64,
    ) -> impl Future<Output = Result<Vec<Vec<DueQueue>>, sqlx::Error>> + Send;
    fn put_notes(
        conn: &mut Self::Connection,
        note: Note,
        notes: &[(Scope, Option<String>)],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

impl<DB: OwnershipSql> Ownerships for DB {
    async fn take_over(
        conn: &mut DB::Connection,
        request: &TakeOver,
    ) -> Result<Taken, TakeOverError> {
        DB::begin_own(conn).await?;
        let answer = take_over::<DB>(conn, request).await;
        DB::end_own(conn, answer).await?.map_err(TakeOverError::Standstill)
    }

    async fn write_watermark(
        conn: &mut DB::Connection,
        scope: &Scope,
        change: &WatermarkMove,
    ) -> Result<bool, sqlx::Error> {
        DB::begin_own(conn).await?;
        let written = watermark::<DB>(conn, scope, change).await;
        DB::end_own(conn, written).await
    }

    async fn write_watermarks(
        conn: &mut DB::Connection,
        changes: &[(Scope, WatermarkMove)],
    ) -> Result<Vec<bool>, sqlx::Error> {
        DB::begin_own(conn).await?;
        let written = DB::move_watermarks(conn, changes).await;
        DB::end_own(conn, written).await
    }

    async fn disown(conn: &mut DB::Connection, scopes: &[Scope]) -> Result<(), sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = DB::let_go(conn, scopes).await;
        DB::end_own(conn, done).await
    }

    async fn find_due(
        conn: &mut DB::Connection,
        looks: &[(Scope, NextOffset)],
        max: usize,
    ) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
        DB::find_queues(conn, looks, i64::try_from(max).unwrap_or(i64::MAX)).await
    }

    async fn write_notes(
        conn: &mut DB::Connection,
        note: Note,
        notes: &[(Scope, Option<String>)],
    ) -> Result<(), sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = DB::put_notes(conn, note, notes).await;
        DB::end_own(conn, done).await
    }
}

/// Writes one watermark, in the open transaction; whether it was written.
pub(crate) async fn watermark<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    scope: &Scope,
    change: &WatermarkMove,
) -> Result<bool, sqlx::Error> {
    let values = values![
        scope.partition_ref,
        scope.epoch.0,
        change.old.0,
        change.new.0,
        change.leader_epoch.0,
        &change.expected,
        change.record.next.0,
        change.record.leader_epoch.0,
    ];
    Ok(DB::execute(conn, DB::ownership().watermark, values).await? == 1)
}

/// A standstill commits what it wrote for people, and nothing else.
type TakeOverAnswer = Result<Taken, Standstill>;

async fn take_over<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    request: &TakeOver,
) -> Result<TakeOverAnswer, TakeOverError> {
    let (consumer_ref, inbox_id) = consumer::<DB>(conn, &request.consumer).await?;
    let mut found = find::<DB>(conn, consumer_ref, request).await?;
    if !Rule::StartIsWritten.on() {
        found = forget_start::<DB>(conn, found).await?;
    }
    let row = match found {
        Found::Row(row) => row,
        Found::StandsStill(row, reason) => {
            return stand_still::<DB>(conn, &row, request, reason).await;
        }
        Found::Nothing(retired) => {
            match add::<DB>(conn, (consumer_ref, inbox_id), request, retired).await? {
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
        Err(reason) => return stand_still::<DB>(conn, &row, request, reason).await,
    };
    let epoch = takeover::next_epoch(&row, request);
    let had = (row.lane_count, row.lane_rule.clone());
    let row = lanes::choose::<DB>(conn, row, request).await?;
    let held = match takeover::lanes(&row, request) {
        Ok(held) => held,
        Err(reason) => return stand_still::<DB>(conn, &row, request, reason).await,
    };
    // Nothing is written before everything is known that a standstill may follow from.
    let keys = match keys::other_keys::<DB>(conn, &row, request, &held).await? {
        Ok(keys) => keys,
        Err(reason) => return stand_still::<DB>(conn, &row, request, reason).await,
    };
    lanes::make::<DB>(conn, &row, had != (row.lane_count, row.lane_rule.clone())).await?;
    keys::set::<DB>(conn, row.partition_ref, &keys).await?;
    let lanes = lanes::raise::<DB>(conn, &row, epoch).await?;
    let incarnation = request.owner.incarnation;
    let suspects =
        suspects::left::<DB>(conn, row.partition_ref, row.watermark, incarnation).await?;
    own::<DB>(conn, &row, epoch, request, &held).await?;
    let taken =
        takeover::taken((request, &row), (consumer_ref, inbox_id), epoch, (held, lanes), resume)?;
    Ok(Ok(Taken { suspects, ..taken }))
}

/// The consumer, which is added if need be, and the identity of its inbox.
pub(super) async fn consumer<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    name: &str,
) -> Result<(i64, Uuid), sqlx::Error> {
    let texts = DB::ownership();
    if let Some(row) = DB::fetch_optional(conn, texts.consumer, values![name]).await?
        && let Some(inbox_id) = row.read("inbox_id")?
    {
        return Ok((row.read("consumer_ref")?, inbox_id));
    }
    DB::execute(conn, texts.add_consumer, values![name]).await?;
    if let Some(name_inbox) = texts.name_inbox {
        DB::execute(conn, name_inbox, values![name]).await?;
    }
    let row = DB::fetch_one(conn, texts.consumer, values![name]).await?;
    Ok((row.read("consumer_ref")?, row.read("inbox_id")?))
}

enum Found {
    Row(PartitionState),
    StandsStill(PartitionState, Standstill),
    /// Nothing, or only (true) what a person has retired.
    Nothing(bool),
}

/// The partition's row, locked.
async fn find<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    consumer_ref: i64,
    request: &TakeOver,
) -> Result<Found, sqlx::Error> {
    let TopicPartition { topic, partition } = &request.partition;
    let values = values![consumer_ref, &**topic, *partition];
    let rows = DB::fetch_all(conn, DB::ownership().partitions, values).await?;
    let rows = rows.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    let retired = !rows.is_empty();
    Ok(match takeover::choose(rows, request) {
        Ok(Some(row)) => Found::Row(row),
        Ok(None) => Found::Nothing(retired),
        Err(recreated) => Found::StandsStill(recreated.0, recreated.1),
    })
}

/// As if the start had not been written: [`Rule::StartIsWritten`] is off.
async fn forget_start<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    found: Found,
) -> Result<Found, sqlx::Error> {
    let Found::Row(row) = found else { return Ok(found) };
    let text = DB::ownership().forget_start;
    let forgotten = DB::execute(conn, text, values![row.partition_ref]).await?;
    Ok(if forgotten == 1 { Found::Nothing(false) } else { Found::Row(row) })
}

fn state(row: &impl Columns) -> Result<PartitionState, sqlx::Error> {
    let parked: Option<i64> = row.read("key_epoch")?;
    let topic_id: Uuid = row.read("topic_id")?;
    Ok(PartitionState {
        partition_ref: row.read("partition_ref")?,
        topic_id: topic_id.into_bytes(),
        lane_count: row.read("lane_count")?,
        lane_rule: row.read("lane_rule")?,
        remapped_below: row.read("remapped_below")?,
        key_rule: parked.is_some().then(|| row.read("key_rule")).transpose()?,
        next_lanes: lanes::waiting(row)?,
        id_scope: takeover::id_scope(row.read("within_topic")?),
        epoch: row.read("epoch")?,
        watermark: row.read("watermark")?,
        watermark_leader_epoch: row.read("watermark_leader_epoch")?,
        record_next: row.read("record_next")?,
        record_leader_epoch: row.read("record_leader_epoch")?,
        log_end_seen: row.read("log_end_seen")?,
        owner_instance: row.read("owner_instance")?,
        owner_incarnation: row.read("owner_incarnation")?,
        owner_seen_seconds: row.read("owner_seen_seconds")?,
        retired: row.read("retired")?,
    })
}

/// The row of a partition that the database does not know, with its first watermark.
async fn add<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    (consumer_ref, inbox_id): (i64, Uuid),
    request: &TakeOver,
    retired: bool,
) -> Result<Result<PartitionState, Standstill>, sqlx::Error> {
    let topic = &*request.partition.topic;
    let values = values![consumer_ref, topic];
    let before = DB::fetch_one(conn, DB::ownership().first_start, values).await?;
    let before: (Option<i32>, _) = (before.at(0)?, before.at(1)?);
    let watermark = match takeover::start(request, before, inbox_id, retired) {
        Ok(watermark) => watermark,
        Err(reason) => return Ok(Err(reason)),
    };
    let rules = (request.lanes.count, request.lanes.placement.lane_rule(), request.id_scope);
    let place = (&request.partition, request.topic_id, before.0.or(request.partitions));
    insert::<DB>(conn, consumer_ref, place, rules, watermark).await?;
    // Another process may have been faster: what counts is what is there now.
    match find::<DB>(conn, consumer_ref, request).await? {
        Found::Row(row) => Ok(Ok(row)),
        Found::StandsStill(_, reason) => Ok(Err(reason)),
        Found::Nothing(_) => Err(unexpected(format!(
            "the row of {topic}/{} in inbox_partitions was deleted while it was acquired",
            request.partition.partition
        ))),
    }
}

/// Adds a partition's row; nothing when there is one.
pub(super) async fn insert<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    consumer_ref: i64,
    (partition, topic_id, partitions_at_start): (&TopicPartition, [u8; 16], Option<i32>),
    (lane_count, lane_rule, id_scope): (u16, &str, IdScope),
    watermark: NextOffset,
) -> Result<Option<i64>, sqlx::Error> {
    let values = values![
        consumer_ref,
        &*partition.topic,
        Uuid::from_bytes(topic_id),
        partition.partition,
        i32::from(lane_count),
        lane_rule,
        watermark.0,
        id_scope == IdScope::Topic,
        partitions_at_start,
    ];
    let added = DB::fetch_optional(conn, DB::ownership().add_partition, values).await?;
    added.map(|row| row.at(0)).transpose()
}

/// Writes why, for `status`; the epoch stays.
async fn stand_still<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    row: &PartitionState,
    request: &TakeOver,
    reason: Standstill,
) -> Result<TakeOverAnswer, TakeOverError> {
    let end = takeover::log_end_seen(&reason, request);
    let text = reason.to_string();
    let values = values![row.partition_ref, &text, end];
    DB::execute(conn, DB::ownership().stand_still, values).await?;
    Ok(Err(reason))
}

async fn own<DB: OwnershipSql>(
    conn: &mut DB::Connection,
    row: &PartitionState,
    epoch: Epoch,
    request: &TakeOver,
    held: &Lanes,
) -> Result<(), sqlx::Error> {
    let parked = keys::are_there::<DB>(conn, row.partition_ref).await?;
    let next = row.next_lanes.as_ref();
    let values = values![
        row.partition_ref,
        epoch.0,
        &request.owner.name,
        &request.owner.instance_id,
        request.owner.incarnation,
        Uuid::from_bytes(takeover::topic_id(row, request)),
        row.lane_count,
        &row.lane_rule,
        row.remapped_below,
        held.placement.key_rule(),
        parked,
        next.map(|(count, _)| *count),
        next.map(|(_, rule)| rule.as_str()),
    ];
    DB::execute(conn, DB::ownership().own, values).await.map(drop)
}
