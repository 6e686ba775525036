//! What lanes and partitions cost while a snapshot stays open: no version of a row that was written after it can be removed.

use inbox_conformance::Probe as _;
use inbox_engine::internal::{Epoch, Lane, LaneMove, LeaderEpoch, LogPoint, NextOffset, Offset};
use inbox_store::internal::{
    PgSettings,
    port::{
        Claim, ClaimRequest, Inspections, Intakes, Owner, Ownerships, Parkings, Schemas, Scope,
        Sessions, WatermarkMove,
    },
};
use sqlx::{PgConnection, Postgres};

use super::{LIMITS, postgres::settings};

const SCOPE: Scope = Scope { consumer_ref: 1, partition_ref: 1, epoch: Epoch(1) };

/// A lane that is moved again and again, as its owner does; the other one stays far behind.
const MOVES: &str = "DO $$ DECLARE at bigint; BEGIN
    SELECT max(last_offset) INTO at FROM inbox_lanes;
    WHILE at < {until} LOOP
        UPDATE inbox_lanes SET last_offset = at + 1, slot = at + 1 >> 8 WHERE partition_ref = 1 AND lane = 0 AND slot = at >> 8;
        COMMIT;
        at := at + 1;
    END LOOP;
END $$";

/// A partition whose row was written this many times, once a second, until now. Each write finds the row by its place,
/// which costs the same for any number of versions.
const WRITES: &str = "DO $$ DECLARE place tid; now_slot bigint := date_part('epoch', now())::bigint >> 7; BEGIN
    SELECT ctid INTO place FROM inbox_partitions WHERE partition_ref = 1;
    FOR left_over IN REVERSE {writes}..1 LOOP
        UPDATE inbox_partitions SET owner_seen = now(), slot = now_slot - (left_over >> 7) WHERE ctid = place
            RETURNING ctid INTO place;
        COMMIT;
    END LOOP;
END $$";

/// Pages of lanes and partitions, and of their indexes, that this session has looked at.
const LOOKED_AT: &str = "SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM (
    SELECT t.oid FROM unnest('{inbox_lanes, inbox_partitions}'::regclass[]) t(oid)
    UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid IN ('inbox_lanes'::regclass, 'inbox_partitions'::regclass)) all_of_them";

/// Rule `LanesFoundBySlot`: after ten updates of a lane and after a hundred thousand. What is counted is pages, which no
/// machine is too slow for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_cost_the_same_however_many_versions_a_snapshot_keeps() {
    let Some((settings, mut moving, mut reading)) = scene("snapshot").await else { return };

    let mut looked_at = Vec::new();
    for until in [10, 1_000, 100_000] {
        Postgres::run(&mut moving, &MOVES.replace("{until}", &until.to_string())).await.unwrap();
        // Plans are those of a process that begins now, and of one that has begun before.
        let mut session = Postgres::open(&settings).await.unwrap();
        looked_at.push(cost(&mut session, until).await);
    }
    // Other tests may have an older one on this server.
    let oldest = Postgres::oldest_snapshot(&mut moving).await.unwrap().expect("one is open");
    assert!(oldest.holder.starts_with("process ") && oldest.seconds.is_some(), "{oldest:?}");
    assert!(oldest.transactions >= 100_000, "{oldest:?}");
    Postgres::run(&mut reading, "ROLLBACK").await.unwrap();
    // Beyond the versions of one slot nothing grows but the height of the key's tree.
    for [claim, advance, one, watermark, lock] in looked_at.iter().copied() {
        let each = [claim, advance, one, watermark, lock];
        assert!(each.iter().all(|pages| (1..=40).contains(pages)), "{looked_at:?}");
    }
}

/// Of a partition's row after ten writes, a thousand and twenty thousand, which are five and a half hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_costs_the_same_however_many_versions_a_snapshot_keeps() {
    let Some((settings, mut writing, mut reading)) = scene("snapshot_row").await else { return };
    let mut looked_at = Vec::new();
    for writes in [10, 1_000, 20_000] {
        let text = WRITES.replace("{writes}", &writes.to_string());
        Postgres::run(&mut writing, &text).await.unwrap();
        let mut session = Postgres::open(&settings).await.unwrap();
        looked_at.push(cost_of_a_row(&mut session).await);
        let is_now = "SELECT (slot = date_part('epoch', now())::bigint >> 7)::integer::bigint
            FROM inbox_partitions WHERE partition_ref = 1";
        assert_eq!(Postgres::number(&mut writing, is_now).await.unwrap(), 1);
    }
    Postgres::run(&mut reading, "ROLLBACK").await.unwrap();
    eprintln!("pages for each look: {looked_at:?}");
    assert!(looked_at.iter().flatten().all(|pages| (1..=100).contains(pages)), "{looked_at:?}");
}

/// A partition with two lanes, a session that writes, and one with a snapshot that stays open.
async fn scene(name: &str) -> Option<(PgSettings, PgConnection, PgConnection)> {
    let settings = settings(name).await?;
    let mut moving = Postgres::administer(&settings).await.unwrap();
    Postgres::run(&mut moving, "SET synchronous_commit = off").await.unwrap();
    Postgres::migrate(&mut moving).await.unwrap();
    let lanes = "INSERT INTO inbox_consumers (consumer) VALUES ('snapshot');
        INSERT INTO inbox_partitions (consumer_ref, topic, topic_id, partition, lane_count, lane_rule, watermark, epoch)
        VALUES (1, 'snapshot', '00000000-0000-0000-0000-000000000000', 0, 2, 'key', 0, 1);
        INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, slot, last_leader_epoch, added_by)
        SELECT 1, lane, 1, -1, -1, 0, 7 FROM generate_series(0, 1) lane";
    Postgres::run(&mut moving, lanes).await.unwrap();
    let mut reading = Postgres::administer(&settings).await.unwrap();
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM inbox_lanes";
    Postgres::run(&mut reading, snapshot).await.unwrap();
    Some((settings, moving, reading))
}

/// Pages that a watermark looks at, alone and in a group, a search for what is due, an intake's watermark, and the lock
/// for a parked event.
async fn cost_of_a_row(session: &mut PgConnection) -> [i64; 5] {
    let change = WatermarkMove {
        old: NextOffset(0),
        new: NextOffset(0),
        expected: vec![-1, -1],
        leader_epoch: LeaderEpoch(0),
        record: LogPoint { next: NextOffset(0), leader_epoch: LeaderEpoch(0) },
    };
    let mut pages = Vec::new();
    let mut before = looked_at(session).await;
    let mut count = async |session: &mut PgConnection| {
        let now = looked_at(session).await;
        pages.push(now - before);
        before = now;
    };
    assert!(Postgres::write_watermark(session, &SCOPE, &change).await.unwrap());
    count(session).await;
    assert_eq!(Postgres::write_watermarks(session, &[(SCOPE, change)]).await.unwrap(), [true]);
    count(session).await;
    let due = Postgres::find_due(session, &[(SCOPE, NextOffset(0))], 1).await.unwrap();
    assert_eq!(due.len(), 1);
    count(session).await;
    let owner = Owner { name: "me".into(), instance_id: None, incarnation: uuid::Uuid::nil() };
    Postgres::settle_lanes(session, SCOPE.partition_ref, &owner).await.unwrap();
    count(session).await;
    Postgres::begin(session, &LIMITS).await.unwrap();
    Postgres::park_alone(session, &SCOPE).await.unwrap();
    Postgres::rollback(session).await.unwrap();
    count(session).await;
    pages.try_into().unwrap()
}

/// Pages that a claim of several events looks at, an advance of two lanes, a claim and advance of one, a watermark, and
/// the lock of an intake.
async fn cost(session: &mut PgConnection, at: i64) -> [i64; 5] {
    let step = |lane, prev| LaneMove {
        lane: Lane(lane),
        prev: Offset(prev),
        new: Offset(prev + 1),
        leader_epoch: LeaderEpoch(0),
    };
    let steps = [step(0, at), step(1, -1)];
    let claim = |events: u8| ClaimRequest {
        ids: (0..events).map(|number| [number; 16]).collect(),
        fingerprints: vec![[1; 16]; usize::from(events)],
        offsets: (0..events).map(|number| at + i64::from(number)).collect(),
        aggregates: vec![[1; 16]],
        lanes: steps[..usize::from(events)].to_vec(),
        expects_new: false,
    };
    let mut pages = Vec::new();
    Postgres::begin(session, &LIMITS).await.unwrap();
    let mut before = looked_at(session).await;
    let mut count = async |session: &mut PgConnection| {
        let now = looked_at(session).await;
        pages.push(now - before);
        before = now;
    };
    let several = Postgres::claim(session, &SCOPE, &claim(2)).await.unwrap();
    assert_eq!(several.lanes_mine, 2);
    count(session).await;
    let moved = Postgres::advance(session, &SCOPE, &several.tx, &steps, None).await.unwrap();
    assert_eq!(moved, 2);
    count(session).await;
    Postgres::rollback(session).await.unwrap();

    Postgres::begin(session, &LIMITS).await.unwrap();
    let one = Postgres::claim(session, &SCOPE, &claim(1)).await.unwrap();
    assert_eq!(one.lanes_mine, 1);
    let moved = Postgres::advance(session, &SCOPE, &one.tx, &steps[..1], None).await.unwrap();
    assert_eq!(moved, 1);
    Postgres::rollback(session).await.unwrap();
    count(session).await;

    let idle = WatermarkMove {
        old: NextOffset(0),
        new: NextOffset(0),
        expected: vec![at, -1],
        leader_epoch: LeaderEpoch(0),
        record: LogPoint { next: NextOffset(0), leader_epoch: LeaderEpoch(0) },
    };
    assert_eq!(Postgres::write_watermarks(session, &[(SCOPE, idle)]).await.unwrap(), [true]);
    count(session).await;

    Postgres::begin(session, &LIMITS).await.unwrap();
    let lanes = [(Lane(0), Offset(at)), (Lane(1), Offset(-1))];
    let locked = Postgres::lock_lanes(session, SCOPE.partition_ref, &lanes).await.unwrap();
    assert_eq!(locked.iter().map(|lane| lane.last.0).collect::<Vec<_>>(), [at, -1]);
    Postgres::rollback(session).await.unwrap();
    count(session).await;
    pages.try_into().unwrap()
}

async fn looked_at(session: &mut PgConnection) -> i64 {
    Postgres::number(session, LOOKED_AT).await.unwrap()
}
