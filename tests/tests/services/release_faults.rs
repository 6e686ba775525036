//! Processes that die or freeze at named points of a live transaction and of a release.

use std::{fs, time::Duration};

use futures::{StreamExt as _, stream};
use tests::{
    SOON, Stage, Worker, eventually,
    soak::checker::{Expected, check},
};

use super::{
    release_support::{break_at, breakable, intend, mend, never, nothing_is_parked, set},
    runtime_support::{up_to, worker},
};

const EXPECTED: Expected = Expected { aggregates: 3, per_aggregate: 6 };

/// Every point with the passes at which the process ends there.
const LIVE: &[(&str, u64)] = &[
    ("live.after_begin", 1),
    ("live.after_begin", 2),
    ("live.after_claim", 1),
    ("live.after_handler", 1),
    ("live.after_park", 1),
    ("live.before_commit", 1),
    ("live.before_commit", 2),
    ("live.after_commit", 1),
    ("live.after_commit", 2),
];

const RELEASE: &[(&str, u64)] = &[
    ("release.after_begin", 1),
    ("release.after_read", 1),
    ("release.after_mark", 1),
    ("release.after_handler", 1),
    ("release.after_handler", 3),
    ("release.after_remove", 1),
    ("release.after_promote", 1),
    ("release.before_commit", 1),
    ("release.after_commit", 1),
    ("release.after_commit", 2),
];

/// By itself, soon and often.
const SCHEDULE: [(&str, &str); 3] = [
    ("INBOX_PARK__RELEASES_MAX", "1000000"),
    ("INBOX_PARK__DELAY_MIN", "50ms"),
    ("INBOX_PARK__DELAY_MAX", "200ms"),
];

fn start(stage: &Stage, more: &[(&str, &str)]) -> Worker {
    let all =
        [&[("INBOX_RETRY__ATTEMPTS_MAX", "1"), ("INBOX_BATCH__EVENTS_MAX", "6")], more].concat();
    worker(stage, stage.config.group(), &all)
}

async fn send_all(stage: &Stage) {
    for n in 1..=6 {
        stage.send(&[breakable("0", n), breakable("1", n), breakable("2", n)]).await;
    }
}

async fn is_right(stage: &Stage, last: &mut Worker) {
    eventually(SOON * 2, "all effects", async || stage.effects().await >= 18).await;
    nothing_is_parked(stage).await;
    assert_eq!(check(stage.schema.pool(), EXPECTED).await.unwrap(), []);
    last.terminate();
    assert!(last.ended(SOON).await.success());
}

/// C7: killed at a point of a transaction that parks; a successor finds every event done, parked or still
/// to come, and after the repair each has one effect.
async fn killed_live((point, pass): (&str, u64)) {
    let stage = set("killed", 1, never()).await;
    break_at(&stage, "0", 2).await;
    send_all(&stage).await;
    let fault = format!("{point}:{pass}");
    let mut dies = start(&stage, &[("INBOX_FAULT", &fault)]);
    assert!(!dies.ended(SOON).await.success(), "{fault}");
    let mut successor = start(&stage, &SCHEDULE);
    let parked = async || stage.of("0").await == [1] && stage.parked("").await == 5;
    eventually(SOON * 2, "what follows the failing event waits", parked).await;
    mend(&stage).await;
    // What the dead process parked without a schedule waits for a person.
    intend(&stage, "release", "anna", "due_at = 'infinity'").await;
    is_right(&stage, &mut successor).await;
}

/// The release of a mended queue is killed at a point; a successor does the rest, nothing twice.
async fn killed_releasing((point, pass): (&str, u64)) {
    let stage = set("killed", 1, never()).await;
    break_at(&stage, "0", 2).await;
    break_at(&stage, "1", 1).await;
    send_all(&stage).await;
    let mut parks = start(&stage, &[]);
    eventually(SOON, "parked", async || stage.parked("").await == 11).await;
    parks.terminate();
    assert!(parks.ended(SOON).await.success());
    mend(&stage).await;
    assert_eq!(intend(&stage, "release", "anna", "reason = 'exhausted'").await, 2);
    let fault = format!("{point}:{pass}");
    let mut dies = start(&stage, &[("INBOX_FAULT", &fault)]);
    assert!(!dies.ended(SOON).await.success(), "{fault}");
    is_right(&stage, &mut start(&stage, &SCHEDULE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_anywhere_in_a_transaction_loses_and_doubles_nothing() {
    let each = stream::iter(LIVE.iter().copied().map(killed_live));
    each.buffer_unordered(3).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_anywhere_in_a_release_loses_and_doubles_nothing() {
    let each = stream::iter(RELEASE.iter().copied().map(killed_releasing));
    each.buffer_unordered(3).collect::<Vec<()>>().await;
}

/// Whether the process is stopped, as a signal stops it.
fn stopped(worker: &Worker) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", worker.pid())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

/// A release freezes at a point for longer than its session lives. Its successor takes the partition
/// over, and parks what arrives behind the queue that it still sees. Then the frozen one wakes: it must
/// not empty that queue any more, or what was just parked would have no head (finding 4).
async fn frozen(point: &str) {
    let stage = set("frozen", 1, never()).await;
    break_at(&stage, "0", 1).await;
    stage.send(&[breakable("0", 1), breakable("0", 2), breakable("1", 1)]).await;
    let mut parks = start(&stage, &[]);
    eventually(SOON, "parked", async || stage.parked("").await == 2).await;
    parks.terminate();
    assert!(parks.ended(SOON).await.success());
    mend(&stage).await;
    intend(&stage, "release", "anna", "reason = 'exhausted'").await;
    let fault = format!("{point}:1:stop");
    // Locks that the frozen one holds are not waited for long.
    let short = ("INBOX_DATABASE__LOCK_TIMEOUT", "300ms");
    let mut zombie = start(&stage, &[("INBOX_FAULT", &fault), short]);
    eventually(SOON, "it freezes", async || stopped(&zombie)).await;
    let epoch = "SELECT epoch FROM inbox_partitions";
    let before = stage.schema.number(epoch).await;
    let mut successor = start(&stage, &[short]);
    eventually(SOON, "it is taken over", async || stage.schema.number(epoch).await > before).await;
    stage.send(&[breakable("0", 3), breakable("1", 2)]).await;
    eventually(SOON, "one more is parked behind", async || stage.parked("").await == 3).await;
    assert_eq!(stage.of("0").await, [] as [i64; 0], "the frozen one has committed nothing");
    let its = format!("SELECT count(*) FROM effects WHERE pid = {}", zombie.pid());
    zombie.resume();
    // It is told so, and gone before the group may rightly give it the partition again.
    zombie.printed(SOON, "fenced: the lanes have moved since this process wrote them").await;
    zombie.kill();
    assert_eq!(stage.schema.number(&its).await, 0, "the frozen one has written");
    eventually(SOON, "all of the queue", async || stage.of("0").await == up_to(3)).await;
    eventually(SOON, "the other one", async || stage.of("1").await == up_to(2)).await;
    stage.send(&[breakable("0", 4)]).await;
    eventually(SOON, "live again", async || stage.of("0").await == up_to(4)).await;
    nothing_is_parked(&stage).await;
    successor.terminate();
    assert!(successor.ended(SOON).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_owner_that_wakes_in_its_release_changes_nothing() {
    let points = ["release.after_mark", "release.after_handler", "release.after_promote"];
    stream::iter(points.map(frozen)).buffer_unordered(3).collect::<Vec<()>>().await;
}

/// The frozen owner's transaction is ended by the database, so that its locks hold nobody up for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_release_is_ended_by_the_database() {
    let stage = set("stalled", 1, never()).await;
    break_at(&stage, "0", 1).await;
    stage.send(&[breakable("0", 1), breakable("0", 2)]).await;
    let mut parks = start(&stage, &[]);
    eventually(SOON, "parked", async || stage.parked("").await == 2).await;
    parks.terminate();
    assert!(parks.ended(SOON).await.success());
    mend(&stage).await;
    intend(&stage, "release", "anna", "reason = 'exhausted'").await;
    let short = [
        ("INBOX_DATABASE__LOCK_TIMEOUT", "300ms"),
        ("INBOX_DATABASE__STATEMENT_TIMEOUT", "500ms"),
        ("INBOX_RETRY__ATTEMPT_DEADLINE", "1s"),
        ("INBOX_DATABASE__IDLE_TIMEOUT", "2s"),
    ];
    // It holds its lane, too: even the take-over has to wait for its end.
    let fault = [("INBOX_FAULT", "release.before_commit:1:stop")];
    let zombie = start(&stage, &[&fault, short.as_slice()].concat());
    eventually(SOON, "it freezes", async || stopped(&zombie)).await;
    let mut successor = start(&stage, &short);
    eventually(SOON, "the queue", async || stage.of("0").await == up_to(2)).await;
    zombie.resume();
    tokio::time::sleep(Duration::from_millis(500)).await;
    nothing_is_parked(&stage).await;
    assert_eq!(stage.of("0").await, up_to(2));
    successor.terminate();
    assert!(successor.ended(SOON).await.success());
}
