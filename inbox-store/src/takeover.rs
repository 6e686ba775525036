//! What a take-over decides, whatever the database: pure, so that both decide the same.

use std::sync::Arc;

use inbox_engine::internal::{
    Epoch, LaneState, LeaderEpoch, LogPoint, NextOffset, Offset, Ownership, Rule, Settled,
    Standstill, first_watermark, resume,
};
use outbox_core::{IdScope, internal::CommitMark};
use service_kit::docs_url;
use uuid::Uuid;

use crate::{
    port::{Corrected, Correction, Lanes, Scope, Suspect, TakeOver, Taken},
    shared::unexpected,
};

/// A live owner writes its watermark (or the idle check) every few seconds: one that was seen within
/// this time still runs.
const OWNER_FRESH_SECONDS: f64 = 10.0;

/// A twin, another live process with the same static instance id, writes once a second while it has
/// events. Kafka shuts the older one of two out, so this only names what would be a race; a process that
/// comes back after a crash does not wait longer for its own past than it has to.
const TWIN_FRESH_SECONDS: f64 = 2.0;

/// An all-zero topic id: the broker did not tell it.
const UNKNOWN_TOPIC: [u8; 16] = [0; 16];

/// Bits of an epoch that are random, so that none is issued twice after a failover.
const EPOCH_RANDOM_BITS: u32 = 20;

/// A row of `inbox_partitions`, locked.
#[derive(Clone, Debug)]
pub(super) struct PartitionState {
    pub(super) partition_ref: i64,
    pub(super) topic_id: [u8; 16],
    pub(super) lane_count: i32,
    pub(super) lane_rule: String,
    pub(super) remapped_below: i64,
    /// The rule of the parked rows' keys, if rows are parked and this build or a later one parked them.
    pub(super) key_rule: Option<String>,
    /// The lanes that are wanted and wait: how many, and their rule.
    pub(super) next_lanes: Option<(i32, String)>,
    pub(super) id_scope: IdScope,
    pub(super) epoch: i64,
    pub(super) watermark: i64,
    pub(super) watermark_leader_epoch: i32,
    pub(super) record_next: i64,
    pub(super) record_leader_epoch: i32,
    pub(super) log_end_seen: Option<i64>,
    pub(super) owner_instance: Option<String>,
    pub(super) owner_incarnation: Option<Uuid>,
    pub(super) owner_seen_seconds: Option<f64>,
    pub(super) retired: bool,
}

/// A row of `inbox_partitions`, locked for a correction.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) epoch: i64,
    pub(super) watermark: i64,
    pub(super) lane_count: i32,
    pub(super) owner: Option<String>,
    pub(super) owner_seen_seconds: Option<f64>,
    pub(super) retired: bool,
}

/// The row that a skip may change, or why it may not.
pub(super) fn skippable(
    standing: Option<Standing>,
    correction: &Correction,
    to: NextOffset,
) -> Result<Standing, Corrected> {
    let ahead = |standing: &Standing| !standing.retired && standing.watermark <= to.0;
    correctable(standing.filter(ahead), correction)
}

/// The row that a correction may change, or why it may not.
pub(super) fn correctable(
    standing: Option<Standing>,
    correction: &Correction,
) -> Result<Standing, Corrected> {
    let standing = standing.ok_or(Corrected::Changed)?;
    owned(&standing, correction).map_or(Ok(standing), Err)
}

/// Refuses a correction under an owner that still runs, unless it is forced.
fn owned(standing: &Standing, correction: &Correction) -> Option<Corrected> {
    let owner = standing.owner.clone()?;
    let seen_seconds = standing.owner_seen_seconds.filter(|seen| *seen < OWNER_FRESH_SECONDS)?;
    (!correction.force).then_some(Corrected::Owned { owner, seen_seconds })
}

/// The row that the take-over is about, of all that have its consumer, topic and partition.
pub(super) fn choose(
    rows: Vec<PartitionState>,
    request: &TakeOver,
) -> Result<Option<PartitionState>, Box<(PartitionState, Standstill)>> {
    let wanted = request.topic_id;
    let (same, others): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .filter(|row| row.topic_id == wanted || !row.retired)
        .partition(|row| row.topic_id == wanted && wanted != UNKNOWN_TOPIC);
    if let Some(recreated) =
        others.iter().find(|row| wanted != UNKNOWN_TOPIC && row.topic_id != UNKNOWN_TOPIC)
    {
        let topic = &request.partition.topic;
        let text = format!(
            "topic {topic} was deleted and re-created: the database has its partition {} under the id {}, the broker \
             reports {}; retire the old partition's rows once its events are settled or given up, then the new topic \
             is read from its beginning",
            request.partition.partition,
            Uuid::from_bytes(recreated.topic_id),
            Uuid::from_bytes(wanted),
        );
        return Err(Box::new((recreated.clone(), Standstill::TopicRecreated(text))));
    }
    // A broker that does not tell the id (any more) does not unmake what is known by it.
    Ok(same.into_iter().next().or_else(|| others.into_iter().max_by_key(|row| row.partition_ref)))
}

/// The id to store: once known, it stays.
pub(super) fn topic_id(row: &PartitionState, request: &TakeOver) -> [u8; 16] {
    if request.topic_id == UNKNOWN_TOPIC { row.topic_id } else { request.topic_id }
}

/// Refuses while another live process has the same static instance id.
pub(super) fn check_owner(row: &PartitionState, request: &TakeOver) -> Result<(), Standstill> {
    let (Some(theirs), Some(ours)) = (&row.owner_instance, &request.owner.instance_id) else {
        return Ok(());
    };
    let other_process = row.owner_incarnation.is_some_and(|id| id != request.owner.incarnation);
    let fresh = row.owner_seen_seconds.is_some_and(|seconds| seconds < TWIN_FRESH_SECONDS);
    if theirs == ours && other_process && fresh {
        return Err(Standstill::ForeignOwner(format!(
            "another live process also uses the instance id {ours:?} and owned {}/{} less than {TWIN_FRESH_SECONDS} \
             s ago; give each process its own `instance_id`",
            request.partition.topic, request.partition.partition
        )));
    }
    Ok(())
}

/// What a row's `id_scope_epoch` says, by whether it is set.
pub(super) fn id_scope(within_topic: bool) -> IdScope {
    if within_topic { IdScope::Topic } else { IdScope::Consumer }
}

/// Refuses ids of another scope than those that the inbox holds: it would find none of them again.
pub(super) fn check_id_scope(held: IdScope, request: &TakeOver) -> Result<(), Standstill> {
    if held == request.id_scope || !Rule::IdScopeStored.on() {
        return Ok(());
    }
    let name = |scope| if scope == IdScope::Topic { "topic" } else { "consumer" };
    let (held, wanted) = (name(held), name(request.id_scope));
    Err(Standstill::IdScope(format!(
        "the inbox of {} contains ids of the scope {held:?}, but the configuration sets `events.id_scope = \
         {wanted:?}` and would detect none of them; set {held:?} again, or change the inbox: {}",
        request.consumer,
        docs_url("operations#id_scope")
    )))
}

/// Whether the configuration wants other lanes than there are.
pub(super) fn wants_others(row: &PartitionState, request: &TakeOver) -> bool {
    let Lanes { count, placement } = &request.lanes;
    let others = row.lane_count != i32::from(*count) || row.lane_rule != placement.lane_rule();
    others && Rule::LaneRuleStored.on()
}

/// The row with the lanes that hold from now on, given how far those that it has are.
///
/// Lanes change only where none is ahead of the watermark: of what was settled ahead, only its lane knows
/// in all cases. A copy, an ignored or a mismatching event has no inbox row of its own, and a row does not
/// tell a torn transaction from a whole one without its lane (finding 24).
pub(super) fn with_lanes(
    mut row: PartitionState,
    last: &[i64],
    request: &TakeOver,
) -> PartitionState {
    let Lanes { count, placement } = &request.lanes;
    let settled_below = last.iter().max().map_or(0, |last| last + 1);
    if settled_below > row.watermark && Rule::RemapOnlyDrained.on() {
        row.next_lanes = Some((i32::from(*count), placement.lane_rule().to_owned()));
        return row;
    }
    // Below it the lanes that parked rows name are others, and a build that changed lanes ahead of the
    // watermark has left rows that do not tell what tore.
    row.remapped_below = row.remapped_below.max(settled_below).max(row.watermark);
    row.lane_count = i32::from(*count);
    placement.lane_rule().clone_into(&mut row.lane_rule);
    row.next_lanes = None;
    row
}

/// The lanes of a row, as the runtime has to follow them.
pub(super) fn lanes(row: &PartitionState, request: &TakeOver) -> Result<Lanes, Standstill> {
    let count = u16::try_from(row.lane_count).unwrap_or(u16::MAX);
    let wanted = &request.lanes.placement;
    if row.lane_rule == wanted.lane_rule() || !Rule::LaneRuleStored.on() {
        return Ok(Lanes { count, placement: Arc::clone(wanted) });
    }
    let stored = wanted.with_lane_rule(&row.lane_rule).ok_or_else(|| {
        Standstill::LaneRule(format!(
            "events above the watermark {} are settled in lanes by the rule {:?}, which this build does not support, \
             and the rule {:?} can apply only once everything before is settled; run the build and configuration \
             that wrote it until the lag is zero, then this one",
            row.watermark,
            row.lane_rule,
            wanted.lane_rule()
        ))
    })?;
    Ok(Lanes { count, placement: Arc::new(stored) })
}

/// A parked row, with the key that its queue is found by.
pub(super) struct ParkedRecord {
    pub(super) seq: i64,
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) key: [u8; 16],
    pub(super) record: String,
}

/// Whether parked rows may have other keys than live events of their aggregates.
pub(super) fn has_other_keys(row: &PartitionState, lanes: &Lanes) -> bool {
    are_other_keys(row.key_rule.as_deref(), lanes)
}

/// The same of the rule that their keys are made by.
pub(super) fn are_other_keys(key_rule: Option<&str>, lanes: &Lanes) -> bool {
    key_rule != Some(lanes.placement.key_rule()) && Rule::ParkedKeysFollowRule.on()
}

/// The rows that need another key, and which; or why nobody can say.
pub(super) type OtherKeys = Result<Vec<(i64, [u8; 16])>, Standstill>;

/// The rows that need another key, and which.
pub(super) fn other_keys(rows: &[ParkedRecord], request: &TakeOver, lanes: &Lanes) -> OtherKeys {
    let mut changed = Vec::new();
    for row in rows {
        let topic = &request.partition.topic;
        let key = lanes.parked_key(topic, row.offset, &row.record).ok_or_else(|| {
            Standstill::LaneRule(format!(
                "aggregates are now determined by the rule {:?}, but the event parked at offset {} (parked_seq {}) \
                 contains no record to determine its aggregate: the column `record` was changed by hand; repair it, \
                 or delete the row",
                lanes.placement.key_rule(),
                row.offset,
                row.seq
            ))
        })?;
        if key != row.key {
            changed.push((row.seq, key));
        }
    }
    Ok(changed)
}

/// The first watermark of a partition that has no row yet, given how many partitions the topic had at the consumer's
/// first start. The offset that a retired row's topic had is nobody's loss: a person has given it up.
pub(super) fn start(
    request: &TakeOver,
    (partitions_at_start, within_topic): (Option<i32>, Option<bool>),
    inbox_id: Uuid,
    retired: bool,
) -> Result<NextOffset, Standstill> {
    check_id_scope(within_topic.map_or(request.id_scope, id_scope), request)?;
    let own = |mark: &&CommitMark| mark.consumer == request.consumer && !retired;
    let whose = request.mark.as_ref().filter(own).map(|mark| {
        if mark.inbox_id == inbox_id {
            "its rows are lost, because the database was restored from before the topic was added, or a replica \
             without them was promoted"
                .to_owned()
        } else {
            format!(
                "it did so with the inbox {}, and this one is {inbox_id}: the database was restored from before the \
                 consumer's first start, or it is a different one",
                mark.inbox_id
            )
        }
    });
    let is_old = |count| request.partition.partition < count || !Rule::AddedFromStart.on();
    let first_start = partitions_at_start.is_none_or(is_old);
    let log = (request.log.start, request.log.end);
    first_watermark(request.start, first_start, request.committed, whose.as_deref(), log)
}

/// The epoch after `row`'s.
pub(super) fn next_epoch(row: &PartitionState, request: &TakeOver) -> Epoch {
    if !Rule::ResyncRaisesEpoch.on() && row.owner_incarnation == Some(request.owner.incarnation) {
        return Epoch(row.epoch);
    }
    epoch_after(row.epoch)
}

/// One generation further, never issued twice.
pub(super) fn epoch_after(epoch: i64) -> Epoch {
    let generation = (epoch >> EPOCH_RANDOM_BITS) + 1;
    let random = if Rule::UniqueEpochs.on() { random_bits() } else { 0 };
    Epoch((generation << EPOCH_RANDOM_BITS) | random)
}

/// Random numbers of the operating system: the last bytes of a version 4 UUID are nothing else, with no time
/// and no counter among them.
fn random_bits() -> i64 {
    let bytes = Uuid::new_v4().into_bytes();
    let low = i64::from(u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]));
    low & ((1 << EPOCH_RANDOM_BITS) - 1)
}

/// Where the process reads on, before anything is committed.
pub(super) fn resume_at(row: &PartitionState, request: &TakeOver) -> Result<LogPoint, Standstill> {
    check_id_scope(row.id_scope, request)?;
    if let Some(held) = request.held.as_ref().filter(|held| row.watermark <= held.watermark.0) {
        return Err(held.reason.clone());
    }
    let settled = Settled {
        watermark: NextOffset(row.watermark),
        record: last_record(row),
        log_end_seen: row.log_end_seen.map(NextOffset),
    };
    resume(settled, request.committed, (request.log.start, request.log.end))
}

/// A watermark with a leader epoch stands right behind a record. Builds before the columns of the last
/// record write only that, so it is the newer one of the two wherever it is known.
fn last_record(row: &PartitionState) -> LogPoint {
    let point = |next, leader_epoch| LogPoint {
        next: NextOffset(next),
        leader_epoch: LeaderEpoch(leader_epoch),
    };
    let at_watermark = point(row.watermark, row.watermark_leader_epoch);
    if at_watermark.known() {
        at_watermark
    } else {
        point(row.record_next, row.record_leader_epoch)
    }
}

/// Offset, deaths, the process that runs it as the database keeps it, who has it parked and why.
pub(super) type SuspectRow<P> = (i64, i32, Option<P>, Option<String>);

/// What a row of `inbox_suspects` says: offset, deaths, the process that wrote it, and what a person has said.
/// One of this process says that it runs, or that nobody could be told of its end: nothing.
pub(super) fn suspect(
    (offset, deaths, process, doom): SuspectRow<Uuid>,
    watermark: i64,
    incarnation: Uuid,
) -> Option<Suspect> {
    let another = process.is_some_and(|id| id != incarnation);
    let deaths = deaths.unsigned_abs() + u32::from(another);
    let told = offset >= watermark && (deaths > 0 || doom.is_some());
    told.then_some(Suspect { offset: Offset(offset), deaths, doom })
}

/// The end of the log that is to be remembered with a standstill.
pub(super) fn log_end_seen(reason: &Standstill, request: &TakeOver) -> Option<i64> {
    matches!(reason, Standstill::LogEndsBelow(_)).then_some(request.log.end.0)
}

/// What the caller works with from now on.
pub(super) fn taken(
    (request, row): (&TakeOver, &PartitionState),
    (consumer_ref, inbox_id): (i64, Uuid),
    epoch: Epoch,
    (held, lanes): (Lanes, Vec<LaneState>),
    resume: LogPoint,
) -> Result<Taken, sqlx::Error> {
    if usize::from(held.count) != lanes.len() {
        return Err(unexpected(format!(
            "{}/{} has {} rows in inbox_lanes, but its lane_count is {}: they were changed by hand; restore them",
            request.partition.topic,
            request.partition.partition,
            lanes.len(),
            row.lane_count
        )));
    }
    Ok(Taken {
        scope: Scope { consumer_ref, partition_ref: row.partition_ref, epoch },
        ownership: Ownership {
            epoch,
            lanes,
            watermark: NextOffset(row.watermark),
            watermark_leader_epoch: LeaderEpoch(row.watermark_leader_epoch),
            record: last_record(row),
            remapped_below: NextOffset(row.remapped_below),
            remap_waits: row.next_lanes.is_some(),
            unclean: row.owner_incarnation.is_some_and(|id| id != request.owner.incarnation),
            resume: resume.next,
            resume_leader_epoch: resume.leader_epoch,
        },
        lanes: held,
        inbox_id,
        topic_id: topic_id(row, request),
        suspects: Vec::new(),
    })
}
