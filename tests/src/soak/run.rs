//! The soak from beginning to end.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    checker::{self, Expected, Violation},
    fleet::{Member, migrate},
    plan::Plan,
};
use crate::{Executable, Producer, Record, Schema, Services, Topic};

const PARTITIONS: i32 = 12;
const MEMBERS: usize = 3;
/// Short, so that a dead member is noticed within the run. The frozen one sleeps longer.
const SESSION: Duration = Duration::from_secs(6);
/// Nothing new for so long means standing still.
const STILL_MAX: Duration = Duration::from_secs(90);

/// What the soak measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Distinct events.
    pub events: u64,
    /// Records in the topic, second copies included.
    pub records: u64,
    /// Aggregates.
    pub aggregates: u64,
    /// From the start of the consumers to the last effect, in seconds.
    pub seconds: f64,
    /// Distinct events per second over that time, kills and freezes included.
    pub events_per_second: f64,
    /// `kill -9`s.
    pub kills: u32,
    /// Freezes past the session time-out.
    pub freezes: u32,
    /// Highest resident memory of any consumer, in bytes.
    pub rss_max: u64,
    /// Share of one core that an idle consumer takes afterwards.
    pub idle_cpu: f64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// Runs the soak; the first violation ends it.
pub async fn soak(consumer: &Executable, events: u64, seed: u64) -> Report {
    let services = Services::from_env();
    let plan = Plan::of(events, seed);
    let (topic, schema) = (services.topic("soak", PARTITIONS).await, services.schema().await);
    schema.run(checker::EFFECTS).await;
    let records = fill(&topic, &plan).await;
    let config = config(&topic, &schema);
    migrate(consumer, &config);
    let expected = Expected { aggregates: plan.aggregates, per_aggregate: plan.per_aggregate };
    let began = Instant::now();
    let names = ["consumer 1", "consumer 2", "consumer 3"];
    let mut members: Vec<Member> =
        names[..MEMBERS].iter().map(|name| Member::start(consumer, name, &config)).collect();
    let mut violations = drive(&mut members, &schema, &plan, &config).await;
    let seconds = began.elapsed().as_secs_f64();
    // Copies that are still in the log would show as doubled effects.
    settle(&schema).await;
    violations.extend(checker::check(schema.pool(), expected).await.expect("reading the effects"));
    let rss_max = members.iter_mut().map(Member::measure).max().unwrap_or(0);
    let idle_cpu = members[0].cpu_share(Duration::from_secs(5)).await;
    for member in members {
        if !member.end().await {
            println!("a consumer did not end well");
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let events_per_second = plan.events() as f64 / seconds;
    Report {
        events: plan.events(),
        records,
        aggregates: plan.aggregates,
        seconds,
        events_per_second,
        kills: 3,
        freezes: 1,
        rss_max,
        idle_cpu,
        violations: violations.iter().map(|v| format!("{:?}: {}", v.anomaly, v.text)).collect(),
    }
}

async fn fill(topic: &Topic, plan: &Plan) -> u64 {
    let producer = Producer::new(topic.bootstrap());
    let mut sent = 0;
    let mut chunk = Vec::with_capacity(20_000);
    for planned in plan.records() {
        let payload = format!("{{\"n\":{}}}", planned.n);
        let (id, aggregate) = (planned.id.to_string(), planned.aggregate.to_string());
        chunk.push(Record::event(&id, "Counted", &aggregate, &payload));
        if chunk.len() == chunk.capacity() {
            sent += producer.send(topic.name(), &chunk).await.len() as u64;
            chunk.clear();
        }
    }
    sent += producer.send(topic.name(), &chunk).await.len() as u64;
    println!("{sent} records of {} events are in the topic", plan.events());
    sent
}

fn config(topic: &Topic, schema: &Schema) -> PathBuf {
    let path = std::env::temp_dir().join(format!("{}.toml", schema.name()));
    let text = format!(
        "[consumer]\nname = \"soak\"\n[kafka]\nbootstrap = \"{}\"\ntopics = [\"{}\"]\ngroup = \"{}\"\n\
         session_timeout = \"{}s\"\n[database]\nurl = \"{}\"\nconnections = 4\n\
         [limits]\ndrain_deadline = \"1s\"\n[log]\nlevel = \"warn\"\n",
        topic.bootstrap(),
        topic.name(),
        topic.name(),
        SESSION.as_secs(),
        schema.url()
    );
    std::fs::write(&path, text).expect("the temporary folder takes a file");
    path
}

/// Kills each member once at its time and freezes one, until every event has its effect.
async fn drive(
    members: &mut [Member],
    schema: &Schema,
    plan: &Plan,
    config: &Path,
) -> Vec<Violation> {
    let goal = plan.events();
    let mut faults: Vec<u64> = vec![goal / 8, goal / 4, goal / 2, goal * 5 / 8];
    faults.reverse();
    let (mut last, mut moved, mut step) = (0, Instant::now(), 0);
    while last < goal {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (effects, violations) =
            checker::glance(schema.pool()).await.expect("reading the effects");
        if !violations.is_empty() {
            return violations;
        }
        members.iter_mut().for_each(|member| _ = member.measure());
        if effects > last {
            (last, moved) = (effects, Instant::now());
            println!("{last} of {goal} effects");
        }
        if moved.elapsed() > STILL_MAX {
            members.iter().for_each(|member| println!("{}", member.log()));
            panic!("nothing has moved for {STILL_MAX:?} at {last} of {goal} effects");
        }
        while faults.last().is_some_and(|at| *at <= last) {
            faults.pop();
            match step {
                1 => members[1].freeze(SESSION + Duration::from_secs(3)).await,
                0 => members[0].kill_and_start(config),
                2 => members[1].kill_and_start(config),
                _ => members[2].kill_and_start(config),
            }
            step += 1;
        }
    }
    Vec::new()
}

/// Waits until the consumers have nothing more to read.
async fn settle(schema: &Schema) {
    let read = "SELECT sum(watermark)::bigint FROM inbox_partitions";
    let (mut last, mut since) = (schema.number(read).await, Instant::now());
    while since.elapsed() < Duration::from_secs(4) {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = schema.number(read).await;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}
