//! Events that end the process, under a supervisor that starts it again at once; and kills that no event is to blame
//! for.

use std::time::{Duration, Instant};

use service_kit::Random;

use super::{
    looks,
    program::Program,
    report::Row,
    topics::once,
    watch::{Mark, logged, watch},
};
use crate::{Executable, Record, SOON, Stage, eventually};

/// Aggregates, each with so many events.
const AGGREGATES: i64 = 20;
const EACH: i64 = 10;
const PATIENCE: Duration = Duration::from_mins(4);
/// Addresses of a process that is to run out of memory: far more than one needs that is well.
const MEMORY_KIB: u64 = 4 << 20;
/// The most deaths until an event is parked.
const DEATHS_MAX: usize = 2;

/// One event ends whatever process runs it: with the defaults, where the group waits for the session of each process
/// that has ended, and with a name of its own for the process, where it does not.
pub(super) async fn poisoned(worker: &Executable, case: &str, act: &str) -> Vec<Row> {
    let mut waits = Row::new(
        &format!("{case}, the process"),
        &format!(
            "a handler ends the process ({act}), a supervisor starts it again at once; from the event on"
        ),
    );
    let mut found = Row::new(
        &format!("{case}, the event"),
        "the same, until the event is parked; the group waits for the session of each process that has ended",
    );
    let mut owned = Row::new(
        &format!("{case}, instance_id"),
        "the same with `consumer.instance_id`, which gives the next process the partitions at once",
    );
    play(worker, act, false, (&mut waits, &mut found)).await;
    play(worker, act, true, (&mut Row::default(), &mut owned)).await;
    vec![waits, found, owned]
}

async fn play(worker: &Executable, act: &str, owned: bool, (waits, found): (&mut Row, &mut Row)) {
    let stage = Stage::set("drill", 4).await;
    let mut program = Program::of(worker, &stage, owned.then_some("one"));
    if act == "oom" {
        program = program.with_memory(MEMORY_KIB);
    }
    let supervised = program.supervised();
    events(&stage, 1, EACH / 2).await;
    let half = AGGREGATES * EACH / 2;
    eventually(SOON, "the effects before", async || stage.effects().await == half).await;

    let (began, mark) = (Instant::now(), Mark::now(&program));
    let payload = format!("{{\"n\":1,\"act\":\"{act}\"}}");
    stage.send(&[Record::event("poison", "Counted", "poison", &payload)]).await;
    events(&stage, EACH / 2 + 1, EACH).await;
    let (down, crashed) = (looks::joining(), looks::crashed());
    (waits.sightings, found.sightings) = tokio::join!(
        watch(&program, &down, (began, &mark), SOON),
        watch(&program, &crashed, (began, &mark), PATIENCE),
    );
    let deaths = supervised.ends();
    found.figures.insert("deaths", figure(deaths.len()));
    let last = deaths.last().map_or(0.0, |at| at.duration_since(began).as_secs_f64());
    found.figures.insert("seconds from the event to the last death", last);
    if deaths.len() > DEATHS_MAX {
        found.wrong.push(format!("{} processes ended", deaths.len()));
    }
    let all = AGGREGATES * EACH;
    eventually(PATIENCE, "every effect", async || stage.effects().await >= all).await;
    settled(&stage, supervised.end().await, (all, 1), found).await;
}

/// `kill -9`s at random moments while events arrive: none is to blame.
pub(super) async fn killed(worker: &Executable, kills: u32) -> Row {
    let stage = Stage::set("drill", 4).await;
    // Else the group would wait for the session of each, and most kills would meet a process without a partition.
    let program = Program::of(worker, &stage, Some("one"));
    let what = format!(
        "{kills} times `kill -9` at random moments, started again at once with `consumer.instance_id`"
    );
    let mut row = Row { asked: false, ..Row::new("kills", &what) };
    let (began, mut random, mut sent) = (Instant::now(), Random::new(0x5EED), 0);
    let (mut mark, owned) = (Mark::now(&program), looks::signals(&["taken_over"]));
    let supervised = program.supervised();
    for _ in 0..kills {
        sent += 1;
        events(&stage, sent, sent).await;
        // One that has no partition yet runs nothing.
        if !logged(&program, &owned, &mark, PATIENCE).await {
            row.wrong.push(format!("no partition is taken over within {PATIENCE:?} of a kill"));
        }
        tokio::time::sleep(Duration::from_millis(random.below(500))).await;
        supervised.kill();
        mark = Mark::now(&program);
    }
    row.figures.insert("seconds", began.elapsed().as_secs_f64());
    let all = AGGREGATES * sent;
    eventually(PATIENCE, "every effect", async || stage.effects().await >= all).await;
    // The last kill may have come behind the last effect: a process that has just begun does not know SIGTERM yet.
    if !logged(&program, &owned, &mark, PATIENCE).await {
        row.wrong.push("the last process takes over no partition".to_owned());
    }
    settled(&stage, supervised.end().await, (all, 0), &mut row).await;
    row
}

async fn events(stage: &Stage, from: i64, to: i64) {
    let records =
        (from..=to).flat_map(|n| (0..AGGREGATES).map(move |of| crate::counted(&of.to_string(), n)));
    stage.send(&records.collect::<Vec<_>>()).await;
}

/// So many events have their effect, once each, and so many are parked, all of them as crashed.
async fn settled(stage: &Stage, well: bool, (effects, parked): (i64, i64), row: &mut Row) {
    row.wrong.extend(once(stage, effects).await);
    let (of_it, all) = (stage.parked("crashed").await, stage.parked("").await);
    if (of_it, all) != (parked, parked) {
        row.wrong.push(format!("{of_it} events are parked as crashed, {all} in all, not {parked}"));
    }
    if !well {
        row.wrong.push("the last process did not end well after SIGTERM".to_owned());
    }
}

fn figure(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
