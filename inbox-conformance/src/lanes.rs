//! Lanes that cross in many transactions at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use inbox_engine::internal::{Epoch, LaneMove};
use service_kit::Random;

use super::{
    Probe,
    scene::{LIMITS, Scene, claim_of, step},
};
use inbox_store::internal::port::{Scope, StoreFault};

const LANES: u16 = 8;
const WORKERS: u64 = 4;
const RUNS_FOR: Duration = Duration::from_secs(2);

/// Finding 12: advances of several lanes and take-overs lock in lane order, so none is a deadlock's
/// victim (rule `LanesLockedInOrder`).
pub async fn crossing_lanes_never_deadlock<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "lanes-crossing").await;
    scene.request.lanes.count = LANES;
    let scope = scene.take_over().await.scope;
    let epoch = Arc::new(AtomicI64::new(scope.epoch.0));
    let until = Instant::now() + RUNS_FOR;
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let conn = scene.session().await;
        workers.push(tokio::spawn(work::<DB>(conn, scope, Arc::clone(&epoch), worker, until)));
    }
    let mut takeovers = 0_u32;
    while Instant::now() < until {
        epoch.store(scene.take_over().await.scope.epoch.0, Ordering::Release);
        takeovers += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut advanced = 0;
    for worker in workers {
        advanced += worker.await.expect("a worker met a deadlock");
    }
    assert!(takeovers > 1 && advanced > 10, "{takeovers} take-overs, {advanced} advances");
}

/// Advances random sets of lanes in random order, again and again; answers how many whole ones.
async fn work<DB: Probe>(
    mut conn: DB::Connection,
    scope: Scope,
    epoch: Arc<AtomicI64>,
    seed: u64,
    until: Instant,
) -> u32 {
    let mut random = Random::new(seed);
    let mut whole = 0;
    while Instant::now() < until {
        let lanes = some_lanes(&mut random);
        let scope = Scope { epoch: Epoch(epoch.load(Ordering::Acquire)), ..scope };
        let outcome = advance::<DB>(&mut conn, &scope, &lanes).await;
        if let Err(error) = &outcome {
            assert_ne!(DB::fault(error), StoreFault::Conflict, "{error}");
        }
        whole += u32::from(outcome.expect("the advance failed") == lanes.len() as u64);
    }
    whole
}

async fn advance<DB: Probe>(
    conn: &mut DB::Connection,
    scope: &Scope,
    lanes: &[LaneMove],
) -> Result<u64, sqlx::Error> {
    DB::begin(conn, &LIMITS).await?;
    let claimed = DB::claim(conn, scope, &claim_of(&[], lanes)).await?;
    let moved = DB::advance(conn, scope, &claimed.tx, lanes, None).await?;
    DB::commit(conn).await?;
    Ok(moved)
}

/// Two lanes or more, each moved to where it is.
fn some_lanes(random: &mut Random) -> Vec<LaneMove> {
    let mut lanes: Vec<u16> = (0..LANES).collect();
    for place in (1..lanes.len()).rev() {
        let other = usize::try_from(random.below(place as u64 + 1)).unwrap_or_default();
        lanes.swap(place, other);
    }
    let count = 2 + usize::try_from(random.below(lanes.len() as u64 - 1)).unwrap_or_default();
    lanes.truncate(count);
    lanes.into_iter().map(|lane| step(lane, -1, -1)).collect()
}
