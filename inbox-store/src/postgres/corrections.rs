//! A partition's rows changed by a person: skipped, or retired. The epoch is taken over as a take-over
//! does it, so that nothing under way can commit beside the change.

use inbox_engine::{Cut, Epoch, NextOffset, Offset, Rule, Statement};
use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};
use uuid::Uuid;

use super::{
    ownership,
    sent::on,
    session::{begin_own, end_own},
    suspects,
};
use crate::{
    port::{Beginning, Corrected, Correction, Corrections, Held},
    shared::unexpected,
    takeover::{self, Standing},
};

/// $1 consumer, $2 topic.
const ROWS: &str = "SELECT p.partition_ref, p.topic_id, p.partition, p.watermark, p.owner, p.standstill,
    greatest(p.watermark, (SELECT max(l.last_offset) + 1 FROM inbox_lanes l WHERE l.partition_ref = p.partition_ref)) AS reached,
    extract(epoch FROM now() - p.owner_seen)::double precision AS owner_seen_seconds,
    (SELECT count(*) FROM inbox_parked q WHERE q.partition_ref = p.partition_ref) AS parked,
    p.retired_at IS NOT NULL AS retired
FROM inbox_partitions p JOIN inbox_consumers c USING (consumer_ref)
WHERE c.consumer = $1 AND p.topic = $2 ORDER BY p.partition, p.partition_ref";

const STANDING: &str =
    "SELECT epoch, watermark, lane_count, owner, retired_at IS NOT NULL AS retired,
    extract(epoch FROM now() - owner_seen)::double precision AS owner_seen_seconds
FROM inbox_partitions WHERE partition_ref = $1 FOR UPDATE";

const PARKED: &str = "SELECT count(*) FROM inbox_parked WHERE partition_ref = $1";

/// $1 partition, $2 lanes, $3 last offset.
const ADD_LANES: &str =
    "INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, last_leader_epoch)
SELECT $1, l, 0, $3, -1 FROM generate_series(0, $2 - 1) l ON CONFLICT DO NOTHING";

/// $1 partition, $2 epoch, $3 last offset. A lane that is raised knows nothing of the records below.
static RAISE_LANES: Statement = Statement::new(
    "WITH k AS MATERIALIZED (SELECT lane FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE)
UPDATE inbox_lanes l SET epoch = $2, last_offset = greatest(l.last_offset, $3),
    last_leader_epoch = CASE WHEN l.last_offset < $3 THEN -1 ELSE l.last_leader_epoch END
FROM k WHERE l.partition_ref = $1 AND l.lane = k.lane",
    &[
        Cut::new(Rule::CorrectionRaisesEpoch, "SET epoch = $2, ", "SET epoch = l.epoch + 0 * $2, "),
        Cut::new(Rule::SkipOnlyRaises, "greatest(l.last_offset, $3)", "$3"),
        Cut::new(
            Rule::SkipForgetsLeaderEpoch,
            "CASE WHEN l.last_offset < $3 THEN -1 ELSE l.last_leader_epoch END",
            "l.last_leader_epoch",
        ),
    ],
);

/// $1 partition, $2 epoch, $3 watermark.
static SKIP: Statement = Statement::new(
    "UPDATE inbox_partitions SET epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2, watermark = $3,
    watermark_leader_epoch = -1, record_next = -1, record_leader_epoch = -1, log_end_seen = NULL, standstill = NULL,
    owner = NULL, owner_instance = NULL, owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = $1",
    &[Cut::new(
        Rule::CorrectionRaisesEpoch,
        "epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2",
        "epoch = epoch + 0 * $2",
    )],
);

/// $1 partition, $2 epoch. The owner stays.
const REFENCE: &str = "UPDATE inbox_partitions SET epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2 WHERE partition_ref = $1";

/// $1 partition, $2 epoch.
static RETIRE: Statement = Statement::new(
    "UPDATE inbox_partitions SET epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2, retired_at = coalesce(retired_at, now()), standstill = NULL,
    owner = NULL, owner_instance = NULL, owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = $1",
    &[Cut::new(
        Rule::CorrectionRaisesEpoch,
        "epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2",
        "epoch = epoch + 0 * $2",
    )],
);

/// $1 partition, $2 who, $3 what, $4 why, $5 offset.
const WRITE: &str = r#"INSERT INTO inbox_audit (who, what, why, consumer_ref, topic, partition, "offset")
SELECT $2, $3, $4, consumer_ref, topic, partition, $5 FROM inbox_partitions WHERE partition_ref = $1"#;

/// $1 partition, $2 who, $3 why, $4 at most. An id that is parked elsewhere, too, stays spared by retention.
const DISCARD: &str = r#"WITH gone AS (DELETE FROM inbox_parked WHERE parked_seq IN
    (SELECT q.parked_seq FROM inbox_parked q WHERE q.partition_ref = $1 ORDER BY q."offset", q.leader_epoch LIMIT $4)
    RETURNING parked_seq, consumer_ref, partition_ref, "offset", event_id, aggregate, event_type),
freed AS (UPDATE inbox_events e SET parked = false, processed_at = now() FROM gone g
    WHERE e.consumer_ref = g.consumer_ref AND e.event_id = g.event_id
    AND NOT EXISTS (SELECT FROM inbox_parked x WHERE x.consumer_ref = g.consumer_ref
        AND x.event_id = g.event_id AND x.parked_seq NOT IN (SELECT parked_seq FROM gone)))
INSERT INTO inbox_audit (who, what, why, consumer_ref, topic, partition, "offset", event_id, aggregate, event_type)
SELECT $2, 'discard', $3, g.consumer_ref, p.topic, p.partition, g."offset", g.event_id, g.aggregate, g.event_type
FROM gone g JOIN inbox_partitions p USING (partition_ref) ORDER BY g."offset""#;

impl Corrections for Postgres {
    async fn rows(
        conn: &mut PgConnection,
        consumer: &str,
        topic: &str,
    ) -> Result<Vec<Held>, sqlx::Error> {
        let rows = sqlx::query(ROWS).bind(consumer).bind(topic).fetch_all(on(conn)).await?;
        rows.iter().map(held).collect()
    }

    async fn skip(
        conn: &mut PgConnection,
        correction: &Correction,
        to: NextOffset,
    ) -> Result<Corrected, sqlx::Error> {
        begin_own(conn).await?;
        let done = skip(conn, correction, to).await;
        end_own(conn, done).await
    }

    async fn doom(
        conn: &mut PgConnection,
        correction: &Correction,
        offset: Offset,
    ) -> Result<Corrected, sqlx::Error> {
        begin_own(conn).await?;
        let done = doom(conn, correction, offset).await;
        end_own(conn, done).await
    }

    async fn begin_partition(
        conn: &mut PgConnection,
        beginning: &Beginning,
    ) -> Result<Corrected, sqlx::Error> {
        begin_own(conn).await?;
        let done = begin_partition(conn, beginning).await;
        end_own(conn, done).await
    }

    async fn retire(
        conn: &mut PgConnection,
        correction: &Correction,
        discard_parked: bool,
    ) -> Result<Corrected, sqlx::Error> {
        begin_own(conn).await?;
        let done = retire(conn, correction, discard_parked).await;
        end_own(conn, done).await
    }

    async fn discard_parked(
        conn: &mut PgConnection,
        correction: &Correction,
        max: u32,
    ) -> Result<u64, sqlx::Error> {
        begin_own(conn).await?;
        let done = discard(conn, correction, max).await;
        end_own(conn, done).await
    }
}

async fn skip(
    conn: &mut PgConnection,
    correction: &Correction,
    to: NextOffset,
) -> Result<Corrected, sqlx::Error> {
    let found = standing(conn, correction).await?;
    let standing = match takeover::skippable(found, correction, to) {
        Ok(standing) => standing,
        Err(refused) => return Ok(refused),
    };
    let epoch = takeover::epoch_after(standing.epoch);
    raise(conn, correction, &standing, (epoch, to)).await?;
    let partition = correction.partition_ref;
    let skip = sqlx::query(SKIP.text()).bind(partition).bind(epoch.0).bind(to.0);
    skip.execute(on(conn)).await?;
    let why = format!("from {} to {}: {}", standing.watermark, to.0, correction.why);
    write(conn, correction, ("skip", &why), Some(to.0)).await?;
    Ok(Corrected::Done)
}

async fn doom(
    conn: &mut PgConnection,
    correction: &Correction,
    offset: Offset,
) -> Result<Corrected, sqlx::Error> {
    let found = standing(conn, correction).await?;
    let Some(standing) = found.filter(|it| !it.retired && it.watermark <= offset.0) else {
        return Ok(Corrected::Changed);
    };
    let epoch = takeover::epoch_after(standing.epoch);
    // Nothing is settled by it: the owner is fenced, and finds the event when it takes over once more.
    raise(conn, correction, &standing, (epoch, NextOffset(standing.watermark))).await?;
    let partition = correction.partition_ref;
    sqlx::query(REFENCE).bind(partition).bind(epoch.0).execute(on(conn)).await?;
    let doom = format!("{}: {}", correction.who, correction.why);
    suspects::doom(conn, partition, offset, &doom).await?;
    write(conn, correction, ("park", &correction.why), Some(offset.0)).await?;
    Ok(Corrected::Done)
}

async fn begin_partition(
    conn: &mut PgConnection,
    beginning: &Beginning,
) -> Result<Corrected, sqlx::Error> {
    let Beginning { consumer, partition, topic_id, lane_count, lane_rule, id_scope, at, who, why } =
        beginning;
    let (consumer_ref, _) = ownership::consumer(conn, consumer).await?;
    let place = (partition, *topic_id);
    let rules = (*lane_count, lane_rule.as_str(), *id_scope);
    let added = ownership::insert(conn, consumer_ref, place, rules, *at).await?;
    let Some(partition_ref) = added else { return Ok(Corrected::Changed) };
    let (who, why) = (who.clone(), format!("begins at {}: {why}", at.0));
    let written = Correction { partition_ref, who, why, force: false };
    write(conn, &written, ("skip", &written.why), Some(at.0)).await?;
    Ok(Corrected::Done)
}

async fn retire(
    conn: &mut PgConnection,
    correction: &Correction,
    discard_parked: bool,
) -> Result<Corrected, sqlx::Error> {
    let found = standing(conn, correction).await?;
    let standing = match takeover::correctable(found, correction) {
        Ok(standing) => standing,
        Err(refused) => return Ok(refused),
    };
    let before = parked(conn, correction).await?;
    if before > 0 && !discard_parked {
        return Ok(Corrected::Parked(before));
    }
    let epoch = takeover::epoch_after(standing.epoch);
    // Everything below the watermark is settled: this moves no lane past anything.
    raise(conn, correction, &standing, (epoch, NextOffset(standing.watermark))).await?;
    // An owner's transaction, waited for just now, may have parked something.
    if !discard_parked && parked(conn, correction).await? > 0 {
        return Err(unexpected("events were parked there at this very moment; try again"));
    }
    let retire = sqlx::query(RETIRE.text()).bind(correction.partition_ref).bind(epoch.0);
    retire.execute(on(conn)).await?;
    write(conn, correction, ("retire", &correction.why), None).await?;
    Ok(Corrected::Done)
}

async fn discard(
    conn: &mut PgConnection,
    correction: &Correction,
    max: u32,
) -> Result<u64, sqlx::Error> {
    let standing = standing(conn, correction).await?;
    if !standing.is_some_and(|standing| standing.retired) {
        return Ok(0);
    }
    let done = sqlx::query(DISCARD)
        .bind(correction.partition_ref)
        .bind(&correction.who)
        .bind(&correction.why)
        .bind(i64::from(max))
        .execute(on(conn))
        .await?;
    Ok(done.rows_affected())
}

/// The partition's row, locked.
async fn standing(
    conn: &mut PgConnection,
    correction: &Correction,
) -> Result<Option<Standing>, sqlx::Error> {
    let row = sqlx::query(STANDING).bind(correction.partition_ref).fetch_optional(on(conn)).await?;
    row.map(|row| {
        Ok(Standing {
            epoch: row.try_get("epoch")?,
            watermark: row.try_get("watermark")?,
            lane_count: row.try_get("lane_count")?,
            owner: row.try_get("owner")?,
            owner_seen_seconds: row.try_get("owner_seen_seconds")?,
            retired: row.try_get("retired")?,
        })
    })
    .transpose()
}

async fn parked(conn: &mut PgConnection, correction: &Correction) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(PARKED).bind(correction.partition_ref).fetch_one(on(conn)).await
}

/// Raises the lanes, in their order: this waits for the transactions of an owner.
async fn raise(
    conn: &mut PgConnection,
    correction: &Correction,
    standing: &Standing,
    (epoch, to): (Epoch, NextOffset),
) -> Result<(), sqlx::Error> {
    let (partition, last) = (correction.partition_ref, to.last().0);
    let add = sqlx::query(ADD_LANES).bind(partition).bind(standing.lane_count).bind(last);
    add.execute(on(conn)).await?;
    let raise = sqlx::query(RAISE_LANES.text()).bind(partition).bind(epoch.0).bind(last);
    raise.execute(on(conn)).await.map(drop)
}

async fn write(
    conn: &mut PgConnection,
    correction: &Correction,
    (what, why): (&str, &str),
    offset: Option<i64>,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(WRITE).bind(correction.partition_ref).bind(&correction.who);
    query.bind(what).bind(why).bind(offset).execute(on(conn)).await.map(drop)
}

fn held(row: &PgRow) -> Result<Held, sqlx::Error> {
    Ok(Held {
        partition_ref: row.try_get("partition_ref")?,
        topic_id: row.try_get::<Uuid, _>("topic_id")?.into_bytes(),
        partition: row.try_get("partition")?,
        watermark: row.try_get("watermark")?,
        reached: row.try_get("reached")?,
        owner: row.try_get("owner")?,
        owner_seen_seconds: row.try_get("owner_seen_seconds")?,
        standstill: row.try_get("standstill")?,
        parked: row.try_get("parked")?,
        retired: row.try_get("retired")?,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::RAISE_LANES.check();
        super::RETIRE.check();
        super::SKIP.check();
    }
}
