//! Kafka that is gone: its broker is dead, or answers nothing.

use std::time::{Duration, Instant};

use super::{
    looks,
    program::Program,
    report::Row,
    topics::{ended, once},
    watch::{Mark, watch},
};
use crate::{Executable, OwnKafka, SOON, Services, Stage, eventually};

const EVENTS: i64 = 40;
const PATIENCE: Duration = Duration::from_mins(1);
/// A consumer whose session is over joins again.
const BACK: Duration = Duration::from_mins(2);

/// `kill -9` of the broker.
pub(super) async fn killed(worker: &Executable) -> Row {
    let row =
        Row::new("broker-killed", "the only broker is killed, started again when it has a name");
    played(worker, row, |kafka| kafka.kill(), async |kafka| kafka.start_again().await).await
}

/// SIGSTOP of the broker.
pub(super) async fn frozen(worker: &Executable) -> Row {
    let row = Row::new("broker-frozen", "the only broker is frozen, woken when it has a name");
    played(worker, row, |kafka| kafka.pause(), async |kafka| kafka.resume()).await
}

async fn played(
    worker: &Executable,
    mut row: Row,
    hurt: impl Fn(&mut OwnKafka),
    mend: impl AsyncFn(&mut OwnKafka),
) -> Row {
    let mut kafka = OwnKafka::start().await;
    let topic = kafka.topic("drill", 2).await;
    let stage = Stage::with(topic, Services::from_env().schema().await).await;
    let program = Program::of(worker, &stage, None);
    let mut process = program.start();
    stage.count("a", 1, EVENTS).await;
    eventually(SOON, "the effects before", async || stage.effects().await == EVENTS).await;

    let (began, mark) = (Instant::now(), Mark::now(&program));
    hurt(&mut kafka);
    row.sightings = watch(&program, &looks::no_broker(), (began, &mark), PATIENCE).await;
    mend(&mut kafka).await;
    let mended = Instant::now();
    stage.count("a", EVENTS + 1, EVENTS * 2).await;
    eventually(BACK, "it goes on", async || stage.effects().await >= EVENTS * 2).await;
    row.figures.insert("seconds from the broker's return", mended.elapsed().as_secs_f64());
    ended(&mut process, &mut row).await;
    row.wrong.extend(once(&stage, EVENTS * 2).await);
    row
}
