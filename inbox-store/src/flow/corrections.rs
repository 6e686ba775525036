//! A partition's rows changed by a person: skipped, or retired. The epoch is taken over as a take-over
//! does it, so that nothing under way can commit beside the change.

use std::future::Future;

use inbox_engine::internal::{Epoch, NextOffset, Offset};
use uuid::Uuid;

use super::{Columns, Read as _, lanes, ownership, ownership::OwnershipSql, suspects, values};
use crate::{
    port::{Beginning, Corrected, Correction, Corrections, PartitionRecord},
    shared::unexpected,
    takeover::{self, Standing},
};

/// The texts of corrections.
pub(crate) struct CorrectionTexts {
    /// 1 consumer, 2 topic.
    pub(crate) rows: &'static str,
    /// 1 partition. Its row, locked.
    pub(crate) standing: &'static str,
    /// 1 partition. How many events are parked.
    pub(crate) parked: &'static str,
    /// 1 partition, 2 epoch, 3 last offset. A lane that is raised knows nothing of the records below.
    pub(crate) raise_lanes: &'static str,
    /// 1 partition, 2 epoch, 3 watermark.
    pub(crate) skip: &'static str,
    /// 1 partition, 2 epoch. The owner stays.
    pub(crate) refence: &'static str,
    /// 1 partition, 2 epoch.
    pub(crate) retire: &'static str,
    /// 1 partition, 2 who, 3 what, 4 why, 5 offset.
    pub(crate) write: &'static str,
}

/// A database with corrections.
pub(crate) trait CorrectionSql: OwnershipSql {
    fn corrections() -> &'static CorrectionTexts;
    /// Removes up to `max` parked events of a partition, each with its row in the audit; answers how many. An id
    /// that is parked elsewhere, too, stays spared by retention.
    fn discard(
        conn: &mut Self::Connection,
        correction: &Correction,
        max: u32,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

impl<DB: CorrectionSql> Corrections for DB {
    async fn rows(
        conn: &mut DB::Connection,
        consumer: &str,
        topic: &str,
    ) -> Result<Vec<PartitionRecord>, sqlx::Error> {
        let values = values![consumer, topic];
        let rows = DB::fetch_all(conn, DB::corrections().rows, values).await?;
        rows.iter().map(read_partition).collect()
    }

    async fn skip(
        conn: &mut DB::Connection,
        correction: &Correction,
        to: NextOffset,
    ) -> Result<Corrected, sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = skip::<DB>(conn, correction, to).await;
        DB::end_own(conn, done).await
    }

    async fn doom(
        conn: &mut DB::Connection,
        correction: &Correction,
        offset: Offset,
    ) -> Result<Corrected, sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = doom::<DB>(conn, correction, offset).await;
        DB::end_own(conn, done).await
    }

    async fn begin_partition(
        conn: &mut DB::Connection,
        beginning: &Beginning,
    ) -> Result<Corrected, sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = begin_partition::<DB>(conn, beginning).await;
        DB::end_own(conn, done).await
    }

    async fn retire(
        conn: &mut DB::Connection,
        correction: &Correction,
        discard_parked: bool,
    ) -> Result<Corrected, sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = retire::<DB>(conn, correction, discard_parked).await;
        DB::end_own(conn, done).await
    }

    async fn discard_parked(
        conn: &mut DB::Connection,
        correction: &Correction,
        max: u32,
    ) -> Result<u64, sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = discard::<DB>(conn, correction, max).await;
        DB::end_own(conn, done).await
    }
}

async fn skip<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
    to: NextOffset,
) -> Result<Corrected, sqlx::Error> {
    let found = standing::<DB>(conn, correction).await?;
    let standing = match takeover::skippable(found, correction, to) {
        Ok(standing) => standing,
        Err(refused) => return Ok(refused),
    };
    let epoch = takeover::epoch_after(standing.epoch);
    raise::<DB>(conn, correction, &standing, (epoch, to)).await?;
    let partition = correction.partition_ref;
    DB::execute(conn, DB::corrections().skip, values![partition, epoch.0, to.0]).await?;
    let why = format!("from {} to {}: {}", standing.watermark, to.0, correction.why);
    write::<DB>(conn, correction, ("skip", &why), Some(to.0)).await?;
    Ok(Corrected::Done)
}

async fn doom<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
    offset: Offset,
) -> Result<Corrected, sqlx::Error> {
    let found = standing::<DB>(conn, correction).await?;
    let Some(standing) = found.filter(|it| !it.retired && it.watermark <= offset.0) else {
        return Ok(Corrected::Changed);
    };
    let epoch = takeover::epoch_after(standing.epoch);
    // Nothing is settled by it: the owner is fenced, and finds the event when it takes over once more.
    raise::<DB>(conn, correction, &standing, (epoch, NextOffset(standing.watermark))).await?;
    let partition = correction.partition_ref;
    DB::execute(conn, DB::corrections().refence, values![partition, epoch.0]).await?;
    let doom = format!("{}: {}", correction.who, correction.why);
    suspects::doom::<DB>(conn, partition, offset, &doom).await?;
    write::<DB>(conn, correction, ("park", &correction.why), Some(offset.0)).await?;
    Ok(Corrected::Done)
}

async fn begin_partition<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    beginning: &Beginning,
) -> Result<Corrected, sqlx::Error> {
    let Beginning {
        consumer,
        partition,
        topic_id,
        partitions,
        lane_count,
        lane_rule,
        id_scope,
        at,
        who,
        why,
    } = beginning;
    let (consumer_ref, _) = ownership::consumer::<DB>(conn, consumer).await?;
    let values = values![consumer_ref, &*partition.topic];
    let before = DB::fetch_one(conn, DB::ownership().first_start, values).await?;
    let before: Option<i32> = before.at(0)?;
    let place = (partition, *topic_id, before.or(Some(*partitions)));
    let rules = (*lane_count, lane_rule.as_str(), *id_scope);
    let added = ownership::insert::<DB>(conn, consumer_ref, place, rules, *at).await?;
    let Some(partition_ref) = added else { return Ok(Corrected::Changed) };
    let (who, why) = (who.clone(), format!("starts at {}: {why}", at.0));
    let written = Correction { partition_ref, who, why, force: false };
    write::<DB>(conn, &written, ("skip", &written.why), Some(at.0)).await?;
    Ok(Corrected::Done)
}

async fn retire<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
    discard_parked: bool,
) -> Result<Corrected, sqlx::Error> {
    let found = standing::<DB>(conn, correction).await?;
    let standing = match takeover::correctable(found, correction) {
        Ok(standing) => standing,
        Err(refused) => return Ok(refused),
    };
    let before = parked::<DB>(conn, correction).await?;
    if before > 0 && !discard_parked {
        return Ok(Corrected::Parked(before));
    }
    let epoch = takeover::epoch_after(standing.epoch);
    // Everything below the watermark is settled: this moves no lane past anything.
    raise::<DB>(conn, correction, &standing, (epoch, NextOffset(standing.watermark))).await?;
    // An owner's transaction, waited for just now, may have parked something; where one writes at a time, none was.
    if DB::WRITERS_MAX > 1 && !discard_parked && parked::<DB>(conn, correction).await? > 0 {
        return Err(unexpected("events were parked there concurrently; try again"));
    }
    let values = values![correction.partition_ref, epoch.0];
    DB::execute(conn, DB::corrections().retire, values).await?;
    write::<DB>(conn, correction, ("retire", &correction.why), None).await?;
    Ok(Corrected::Done)
}

async fn discard<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
    max: u32,
) -> Result<u64, sqlx::Error> {
    let standing = standing::<DB>(conn, correction).await?;
    if !standing.is_some_and(|standing| standing.retired) {
        return Ok(0);
    }
    DB::discard(conn, correction, max).await
}

/// The partition's row, locked.
async fn standing<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
) -> Result<Option<Standing>, sqlx::Error> {
    let values = values![correction.partition_ref];
    let row = DB::fetch_optional(conn, DB::corrections().standing, values).await?;
    row.map(|row| {
        Ok(Standing {
            epoch: row.read("epoch")?,
            watermark: row.read("watermark")?,
            lane_count: row.read("lane_count")?,
            owner: row.read("owner")?,
            owner_seen_seconds: row.read("owner_seen_seconds")?,
            retired: row.read("retired")?,
        })
    })
    .transpose()
}

async fn parked<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
) -> Result<i64, sqlx::Error> {
    DB::fetch_one(conn, DB::corrections().parked, values![correction.partition_ref]).await?.at(0)
}

/// Raises the lanes, in their order: this waits for the transactions of an owner.
async fn raise<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
    standing: &Standing,
    (epoch, to): (Epoch, NextOffset),
) -> Result<(), sqlx::Error> {
    let (partition, last) = (correction.partition_ref, to.last().0);
    lanes::add::<DB>(conn, partition, standing.lane_count, last).await?;
    let raise = DB::corrections().raise_lanes;
    DB::execute(conn, raise, values![partition, epoch.0, last]).await.map(drop)
}

async fn write<DB: CorrectionSql>(
    conn: &mut DB::Connection,
    correction: &Correction,
    (what, why): (&str, &str),
    offset: Option<i64>,
) -> Result<(), sqlx::Error> {
    let values = values![correction.partition_ref, &correction.who, what, why, offset];
    DB::execute(conn, DB::corrections().write, values).await.map(drop)
}

fn read_partition(row: &impl Columns) -> Result<PartitionRecord, sqlx::Error> {
    let topic_id: Uuid = row.read("topic_id")?;
    Ok(PartitionRecord {
        partition_ref: row.read("partition_ref")?,
        topic_id: topic_id.into_bytes(),
        partition: row.read("partition")?,
        watermark: row.read("watermark")?,
        reached: row.read("reached")?,
        owner: row.read("owner")?,
        owner_seen_seconds: row.read("owner_seen_seconds")?,
        standstill: row.read("standstill")?,
        parked: row.read("parked")?,
        retired: row.read("retired")?,
    })
}
