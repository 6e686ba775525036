//! Rolling restarts while handlers are slow: partitions move all the time, and nothing is to be parked for it.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{
    Executable, Record, SOON, Stage, Worker, eventually,
    soak::checker::{self, Expected},
};

/// Every so many aggregates one has handlers of five seconds; those of the others take one.
const SLOWEST_EVERY: u64 = 5;
/// An event of each aggregate comes so often: a third of what two processes can do.
const PACE: Duration = Duration::from_secs(8);

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How often each process is restarted.
    pub rounds: u32,
    /// Processes of the group.
    pub processes: usize,
    /// Aggregates with events.
    pub aggregates: u64,
    /// Partitions of the topic.
    pub partitions: i32,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Processes that were stopped and started again.
    pub restarts: u32,
    /// Events sent.
    pub events: u64,
    /// Events parked at the end; nothing brings them back in between.
    pub parked: i64,
    /// Times that a handler failed, as the processes told.
    pub failures: usize,
    /// Transactions that were given up with their partition.
    pub given_up: usize,
    /// From the first start to the last effect.
    pub seconds: f64,
    /// Of them: from the last restart to the last effect.
    pub seconds_to_the_end: f64,
    /// What is wrong with the effects in the end.
    pub violations: Vec<String>,
}

/// Restarts the processes of a group in turns while events arrive, then waits for every effect.
pub async fn rolling(worker: &Executable, size: Size) -> Report {
    let stage = Stage::set("rolling", size.partitions).await;
    let began = Instant::now();
    let mut members: Vec<Worker> = (0..size.processes).map(|_| start(worker, &stage)).collect();
    let (mut sent, mut ended) = (0, String::new());
    let mut due = Instant::now();
    let mut restarts = 0;
    for _ in 0..size.rounds {
        for member in &mut members {
            let owners = i64::try_from(size.processes).expect("few processes");
            let all = async || owners_now(&stage).await == owners;
            eventually(SOON, "every process has partitions", all).await;
            // Long enough that transactions are open that take longer than a drain.
            let on = Instant::now() + Duration::from_secs(3);
            while Instant::now() < on {
                if Instant::now() >= due {
                    sent += 1;
                    send(&stage, size.aggregates, sent).await;
                    due += PACE;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let mut old = std::mem::replace(member, start(worker, &stage));
            old.terminate();
            assert!(old.ended(SOON).await.success(), "a process ends well when it is asked to");
            ended.push_str(&old.log());
            restarts += 1;
        }
    }
    let last = Instant::now();
    let events = size.aggregates * sent;
    let all = i64::try_from(events).expect("few events");
    // What is parked has no effect: then there is nothing to wait for.
    let patience = Duration::from_mins(4);
    eventually(patience, "every event has its effect, or is parked", async || {
        stage.effects().await + stage.parked("").await >= all
    })
    .await;
    let (seconds, rest) = (began.elapsed().as_secs_f64(), last.elapsed().as_secs_f64());
    for mut member in members {
        member.terminate();
        assert!(member.ended(SOON).await.success(), "a process ends well when it is asked to");
        ended.push_str(&member.log());
    }
    let expected = Expected { aggregates: size.aggregates, per_aggregate: sent };
    let wrong = checker::check(stage.schema.pool(), expected).await.expect("reading the effects");
    let told = |what: &str| ended.lines().filter(|line| line.contains(what)).count();
    Report {
        restarts,
        events,
        parked: stage.parked("").await,
        failures: told("handler failed"),
        given_up: told("open transactions aborted"),
        seconds,
        seconds_to_the_end: rest,
        violations: wrong.iter().map(|v| format!("{:?}: {}", v.anomaly, v.text)).collect(),
    }
}

/// How many processes own partitions, as the database knows.
async fn owners_now(stage: &Stage) -> i64 {
    stage
        .schema
        .number("SELECT count(DISTINCT owner) FROM inbox_partitions WHERE owner <> ''")
        .await
}

/// Event `n` of each aggregate.
async fn send(stage: &Stage, aggregates: u64, n: u64) {
    let one = |aggregate: u64| {
        let sleep_ms = if aggregate.is_multiple_of(SLOWEST_EVERY) { 5_000 } else { 1_000 };
        let payload = format!("{{\"n\":{n},\"sleep_ms\":{sleep_ms}}}");
        let aggregate = aggregate.to_string();
        Record::event(&format!("{aggregate}-{n}"), "Counted", &aggregate, &payload)
    };
    stage.send(&(0..aggregates).map(one).collect::<Vec<_>>()).await;
}

/// A process with the times of a default configuration, but for its session.
fn start(worker: &Executable, stage: &Stage) -> Worker {
    let mut command = worker.command();
    command
        .arg("run")
        .env("INBOX_CONSUMER__NAME", &stage.config.consumer.name)
        .env("INBOX_KAFKA__BOOTSTRAP", stage.topic.bootstrap())
        .env("INBOX_KAFKA__TOPICS", stage.topic.name())
        .env("INBOX_DATABASE__URL", stage.schema.url())
        .env("INBOX_HTTP__LISTEN", "off")
        // As long as the longest handler takes; the session with the group follows.
        .env("INBOX_LIMITS__DRAIN_DEADLINE", "5s")
        .env("INBOX_LOG__FORMAT", "human")
        // Parked events stay parked, so that they are seen.
        .env("INBOX_PARK__RELEASES_MAX", "0");
    Worker::spawn(&mut command)
}
