//! Events that hold their lane: a statement that always meets its time-out, handlers that block their thread.

use std::{
    collections::BTreeMap,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use super::{
    looks,
    program::Program,
    report::Row,
    topics::{ended, once},
    watch::{Mark, Sighting, Wanted, watch},
};
use crate::{Executable, Record, SOON, Stage, Worker, eventually};

/// Events that are well, each of an aggregate of its own.
const OTHERS: i64 = 100;
const PATIENCE: Duration = Duration::from_mins(1);
/// `retry.attempt_deadline`, when nothing sets it.
const ATTEMPT: Duration = Duration::from_secs(30);
/// From the call to the end of the process: attempt, and 30 s in which it is overdue; and some.
const END_MAX: Duration = Duration::from_secs(90);
/// `limits.drain_deadline`, `limits.close_deadline` and 5 s, when nothing sets them, and some.
const SIGNAL_MAX: f64 = 22.0;

struct Scene {
    stage: Stage,
    program: Program,
    process: Worker,
    called: Instant,
    mark: Mark,
}

/// A consumer at work, and the events that misbehave sent; those after them are well.
async fn set(worker: &Executable, act: &str, events: usize) -> Scene {
    let stage = Stage::set("drill", 4).await;
    let program = Program::of(worker, &stage, None);
    let process = program.start();
    others(&stage, "before").await;
    eventually(SOON, "the effects before", async || stage.effects().await == OTHERS).await;
    let (called, mark) = (Instant::now(), Mark::now(&program));
    let bad = |at| {
        let payload = format!("{{\"n\":1,\"act\":\"{act}\"}}");
        Record::event(&format!("bad-{at}"), "Counted", &format!("bad-{at}"), &payload)
    };
    stage.send(&(0..events).map(bad).collect::<Vec<_>>()).await;
    Scene { stage, program, process, called, mark }
}

async fn others(stage: &Stage, stem: &str) {
    let record = |n| crate::counted(&format!("{stem}-{n}"), 1);
    stage.send(&(0..OTHERS).map(record).collect::<Vec<_>>()).await;
}

impl Scene {
    async fn watch(&self, wanted: &Wanted) -> BTreeMap<&'static str, Sighting> {
        watch(&self.program, wanted, (self.called, &self.mark), PATIENCE).await
    }
}

/// It ends by itself, with its own exit code.
async fn ends(process: &mut Worker, called: Instant, row: &mut Row) {
    let status = process.ended(END_MAX).await;
    row.figures.insert("seconds from the call to its end", called.elapsed().as_secs_f64());
    if status.code() != Some(8) {
        row.wrong.push(format!("it ended with {status}, not with the exit code 8"));
    }
}

/// Its statement always meets the time-out.
pub(super) async fn held(worker: &Executable) -> Row {
    let mut scene = set(worker, "statement", 1).await;
    let mut row =
        Row::new("lane-held", "a handler whose statement always meets the time-out; from the call");
    row.sightings = scene.watch(&looks::held("bad-0")).await;
    others(&scene.stage, "after").await;
    let all = async || scene.stage.effects().await == OTHERS * 2;
    eventually(SOON, "the other lanes go on", all).await;
    ended(&mut scene.process, &mut row).await;
    row.wrong.extend(once(&scene.stage, OTHERS * 2).await);
    row
}

/// One handler blocks its thread for good.
pub(super) async fn one(worker: &Executable) -> Vec<Row> {
    let mut scene = set(worker, "block", 1).await;
    let mut held = Row::new("blocks-one, the lane", "a handler blocks its thread; from the call");
    let mut own =
        Row::new("blocks-one, the handler", "the same, by its own name; from the end of its time");
    let mut end = Row::default();
    let (by_lane, by_name) = (looks::held("bad-0"), looks::reasons(NAMES));
    let Scene { stage, program, process, called, mark } = &mut scene;
    let since = (*called, &*mark);
    let blocked = async {
        tokio::time::sleep(ATTEMPT).await;
        watch(program, &by_name, (*called + ATTEMPT, mark), PATIENCE).await
    };
    (held.sightings, own.sightings, ()) = tokio::join!(
        watch(program, &by_lane, since, PATIENCE),
        blocked,
        ends(process, *called, &mut end)
    );
    own.figures.append(&mut end.figures);
    own.wrong.append(&mut end.wrong);
    own.wrong.extend(once(stage, OTHERS).await);
    vec![held, own]
}

const NAMES: &[&str] = &["handler_blocks", "stuck", "blocked"];

/// As many handlers block as the runtime has threads.
pub(super) async fn all(worker: &Executable) -> Vec<Row> {
    let threads = available_parallelism().map_or(1, usize::from);
    let mut scene = set(worker, "block", threads).await;
    let mut row =
        Row::new("blocks-all", "handlers block every thread of the runtime; from the calls");
    row.figures.insert("threads", f64::from(u32::try_from(threads).unwrap_or(u32::MAX)));
    let mut end = Row::default();
    let by_name = looks::reasons(NAMES);
    let Scene { stage, program, process, called, mark } = &mut scene;
    (row.sightings, ()) = tokio::join!(
        watch(program, &by_name, (*called, &*mark), PATIENCE),
        ends(process, *called, &mut end)
    );
    row.figures.append(&mut end.figures);
    row.wrong.append(&mut end.wrong);
    row.wrong.extend(once(stage, OTHERS).await);
    vec![row]
}

/// A signal ends a process whose handlers block.
pub(super) async fn signal(worker: &Executable) -> Row {
    let threads = available_parallelism().map_or(1, usize::from);
    let mut scene = set(worker, "block", threads).await;
    let what = "handlers block every thread, and SIGTERM asks the process to end";
    let mut row = Row { asked: false, ..Row::new("blocks-signal", what) };
    // Every thread is taken once the others have settled what they had.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = Instant::now();
    scene.process.terminate();
    scene.process.ended(END_MAX).await;
    let seconds = asked.elapsed().as_secs_f64();
    row.figures.insert("seconds from SIGTERM to its end", seconds);
    if seconds > SIGNAL_MAX {
        row.wrong.push(format!("SIGTERM took {seconds:.1} s"));
    }
    row.wrong.extend(once(&scene.stage, OTHERS).await);
    row
}
