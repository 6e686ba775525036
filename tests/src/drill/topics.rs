//! A topic that is deleted, and created anew with fewer partitions, under a running consumer.

use std::time::{Duration, Instant};

use super::{
    looks,
    program::Program,
    report::Row,
    watch::{Mark, watch},
};
use crate::{Executable, OwnKafka, Producer, Record, SOON, Services, Stage, Worker, eventually};

/// Before, and after.
const PARTITIONS: (i32, i32) = (4, 2);
/// Events before it is deleted, one of each aggregate.
const EVENTS: i64 = 40;
const PATIENCE: Duration = Duration::from_mins(1);
/// What it may be called: of some partitions the topic is another one, others are not there any more.
const NAMES: &[&str] = &["topic_recreated", "topic_missing"];

/// One of the orders.
pub(super) async fn played(worker: &Executable, case: &str) -> Row {
    let mut kafka = OwnKafka::start().await;
    let topic = kafka.topic("drill", PARTITIONS.0).await;
    let stage = Stage::with(topic, Services::from_env().schema().await).await;
    let program = Program::of(worker, &stage, None);
    let mut process = program.start();
    stage.send(&records("before")).await;
    eventually(SOON, "the effects before", async || stage.effects().await == EVENTS).await;

    let (began, mark) = (Instant::now(), Mark::now(&program));
    let change = async {
        match case {
            "topic-recreated" => {
                stage.topic.delete().await;
                anew(&stage).await;
                "deleted; created with fewer partitions once the client says that it is gone"
            }
            "topic-recreated-at-once" => {
                stage.topic.delete_at_once().await;
                anew(&stage).await;
                "deleted, and created with fewer partitions at once"
            }
            "topic-recreated-over-a-restart" => {
                stage.topic.delete().await;
                kafka.kill();
                kafka.start_again().await;
                anew(&stage).await;
                "deleted, the broker restarted, created with fewer partitions"
            }
            _ => {
                stage.topic.delete().await;
                "deleted"
            }
        }
    };
    let wanted = looks::reasons(NAMES);
    let (done, sightings) =
        tokio::join!(change, watch(&program, &wanted, (began, &mark), PATIENCE));
    let mut row = Row { sightings, ..Row::new(case, done) };
    ended(&mut process, &mut row).await;
    row.wrong.extend(once(&stage, EVENTS).await);
    row
}

async fn anew(stage: &Stage) {
    stage.topic.create_again_with(PARTITIONS.1).await;
    // One that has never known the partitions which are not there any more.
    let producer = Producer::new(stage.topic.bootstrap());
    producer.send(stage.topic.name(), &records("anew")).await;
}

fn records(stem: &str) -> Vec<Record> {
    (0..EVENTS).map(|n| crate::counted(&format!("{stem}-{n}"), 1)).collect()
}

/// SIGTERM ends it well.
pub(super) async fn ended(process: &mut Worker, row: &mut Row) {
    process.terminate();
    let began = Instant::now();
    let status = process.ended(Duration::from_mins(2)).await;
    row.figures.insert("seconds from SIGTERM to its end", began.elapsed().as_secs_f64());
    if !status.success() {
        row.wrong.push(format!("it ended with {status} after SIGTERM"));
    }
}

/// What is wrong with the effects: at least so many events must have one, and none of them two.
pub(super) async fn once(stage: &Stage, events: i64) -> Vec<String> {
    let different = stage.schema.number("SELECT count(DISTINCT event_id) FROM effects").await;
    let all = stage.effects().await;
    let mut wrong = Vec::new();
    if different < events {
        wrong.push(format!("{different} of {events} events have an effect"));
    }
    if all > different {
        wrong.push(format!("{} effects are there twice", all - different));
    }
    wrong
}
