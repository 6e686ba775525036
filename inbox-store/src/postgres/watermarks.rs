//! The watermarks of many partitions in one statement.

use inbox_engine::{Cut, LeaderEpoch, Rule, Statement};
use sqlx::PgConnection;

use super::sent::on;
use crate::port::{Scope, WatermarkMove};

/// One array a column: $1 partition, $2 epoch, $3 old, $4 new, $5 leader epoch, $6 and $7 the first and the
/// last of its numbers in $8, expected; $9 behind the last record, $10 its leader epoch. What somebody has locked is left out. The lanes are looked at once for
/// each partition: a condition inside a join may be asked for each pair.
static WATERMARKS: Statement = Statement::new(
    "WITH x AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
    $5::integer[], $6::integer[], $7::integer[], $9::bigint[], $10::integer[])
    x(ref, epoch, old, new, leader_epoch, first, last, record_next, record_leader_epoch)),
fit AS MATERIALIZED (SELECT * FROM x WHERE (SELECT count(*) FROM inbox_lanes l
    WHERE l.partition_ref = x.ref AND l.lane <= x.last - x.first AND l.epoch = x.epoch
    AND l.last_offset >= ($8::bigint[])[x.first + l.lane]) = x.last - x.first + 1),
k AS MATERIALIZED (SELECT w.partition_ref FROM inbox_partitions w JOIN fit x ON w.partition_ref = x.ref
    WHERE w.epoch = x.epoch AND w.watermark = x.old AND w.watermark <= x.new
    ORDER BY w.partition_ref FOR NO KEY UPDATE OF w SKIP LOCKED)
UPDATE inbox_partitions w SET watermark = x.new, watermark_leader_epoch = x.leader_epoch, owner_seen = now(),
    record_next = x.record_next, record_leader_epoch = x.record_leader_epoch,
    log_end_seen = CASE WHEN x.new > x.old THEN NULL ELSE w.log_end_seen END
FROM fit x JOIN k ON k.partition_ref = x.ref WHERE w.partition_ref = x.ref
RETURNING w.partition_ref",
    &[
        Cut::new(
            Rule::WatermarkCas,
            "WHERE w.epoch = x.epoch AND w.watermark = x.old AND w.watermark <= x.new
    ",
            "",
        ),
        Cut::new(
            Rule::WatermarkChecksLanes,
            " WHERE (SELECT count(*) FROM inbox_lanes l
    WHERE l.partition_ref = x.ref AND l.lane <= x.last - x.first AND l.epoch = x.epoch
    AND l.last_offset >= ($8::bigint[])[x.first + l.lane]) = x.last - x.first + 1",
            "",
        ),
    ],
);

/// Writes what nothing keeps from being written, in the open transaction; whether each was.
pub(super) async fn write(
    conn: &mut PgConnection,
    changes: &[(Scope, WatermarkMove)],
) -> Result<Vec<bool>, sqlx::Error> {
    let of = |value: fn(&(Scope, WatermarkMove)) -> i64| -> Vec<i64> {
        changes.iter().map(value).collect()
    };
    let epochs = |value: fn(&WatermarkMove) -> LeaderEpoch| -> Vec<i32> {
        changes.iter().map(|(_, change)| value(change).0).collect()
    };
    let (firsts, lasts): (Vec<i32>, Vec<i32>) = ranges(changes).unzip();
    let expected: Vec<i64> =
        changes.iter().flat_map(|(_, change)| &change.expected).copied().collect();
    let moved: Vec<i64> = sqlx::query_scalar(WATERMARKS.text())
        .bind(of(|(scope, _)| scope.partition_ref))
        .bind(of(|(scope, _)| scope.epoch.0))
        .bind(of(|(_, change)| change.old.0))
        .bind(of(|(_, change)| change.new.0))
        .bind(epochs(|change| change.leader_epoch))
        .bind(firsts)
        .bind(lasts)
        .bind(expected)
        .bind(of(|(_, change)| change.record.next.0))
        .bind(epochs(|change| change.record.leader_epoch))
        .fetch_all(on(conn))
        .await?;
    Ok(changes.iter().map(|(scope, _)| moved.contains(&scope.partition_ref)).collect())
}

/// Where the lanes of each partition are in the array of all: the first and the last, from 1.
fn ranges(changes: &[(Scope, WatermarkMove)]) -> impl Iterator<Item = (i32, i32)> {
    changes.iter().scan(0, |end, (_, change)| {
        let first = *end + 1;
        *end += i32::try_from(change.expected.len()).unwrap_or(i32::MAX);
        Some((first, *end))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::WATERMARKS.check();
    }
}
