//! What an append costs a business transaction: one row of it alone, with an event, and with what wakes a relay.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use outbox_core::{Aggregate, Outbox, OutboxEvent};
use serde::Serialize;
use sqlx::postgres::PgListener;
use sqlx::{Connection as _, PgConnection};
use xtask::failure::{Explain as _, Failure, Outcome, failure};
use xtask::usage;

use crate::measure::number_of;
use crate::options::Options;
use crate::report::Spread;
use crate::server::{Database, Server};

const ORDERS: &str = "CREATE TABLE orders (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer bigint NOT NULL,
    amount   bigint NOT NULL,
    note     text NOT NULL
)";
const ORDER: &str = "INSERT INTO orders (customer, amount, note) VALUES ($1, $2, $3)";
/// As docs/outbox-table.md has it.
const PLAIN: &str = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, occurred_at_ms, payload)
    VALUES (gen_random_uuid(), 'OrderPlaced', 'Order', $1, $2, $3)";
/// What an order and its event say besides.
const NOTE: [u8; 150] = [b'x'; 150];
/// Writers at a time, by turns.
const WRITERS: [u64; 2] = [1, 8];

/// What a transaction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Course {
    /// It inserts its order.
    Alone,
    /// It appends an event, and nobody is woken.
    Append,
    /// It appends as `append` does by itself: with a notification.
    Notify,
    /// It inserts the event by plain SQL, and nobody is woken.
    Plain,
    /// The same, with the trigger.
    Trigger,
}

const COURSES: [Course; 5] =
    [Course::Alone, Course::Append, Course::Notify, Course::Plain, Course::Trigger];

impl Course {
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Append => "append, notify off",
            Self::Notify => "append",
            Self::Plain => "plain insert",
            Self::Trigger => "plain insert, trigger",
        }
    }
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
struct Run {
    commits_per_s: f64,
    /// Processor time of PostgreSQL for each transaction, in microseconds.
    server_cpu_us: f64,
}

/// A course with so many writers, and its runs.
#[derive(Debug)]
struct Series {
    course: Course,
    writers: u64,
    runs: Vec<Run>,
}

/// What a series came to.
#[derive(Debug, Serialize)]
struct Line {
    course: &'static str,
    writers: u64,
    commits_per_s: Spread,
    /// Against the business alone, round by round.
    against_alone: Spread,
    /// Median.
    server_cpu_us: f64,
}

/// Measures, prints, writes.
pub(crate) async fn run(options: Options) -> Outcome {
    let server = Server::start("").await?;
    let time = Duration::from_secs(options.seconds);
    let series = |writers| COURSES.map(|course| Series { course, writers, runs: Vec::new() });
    let mut all: Vec<Series> = WRITERS.into_iter().flat_map(series).collect();
    for round in 1..=options.rounds {
        println!("round {round} of {}, load {}", options.rounds, usage::load());
        for Series { course, writers, runs } in &mut all {
            let run = once(&server, *course, *writers, time).await?;
            let name = course.name();
            println!("  {writers} {name:<24} {:>8.0} commits/s", run.commits_per_s);
            runs.push(run);
        }
        // Who comes first in one round comes last in the next.
        all.reverse();
    }
    all.sort_by_key(|series| (series.writers, series.course as u8));
    let lines = lines(&all);
    println!("\n{}", table(&lines));
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&lines).explain(|| "the results".to_owned())?;
        fs::write(file, text + "\n").explain(|| format!("cannot write {}", file.display()))?;
    }
    server.end()
}

/// One run on a database of its own.
async fn once(server: &Server, course: Course, writers: u64, time: Duration) -> Outcome<Run> {
    let database = server.create(&format!("append_{}", server.next_run()), "").await?;
    let doing = || "cannot prepare a run".to_owned();
    let mut connection = PgConnection::connect(&database.url).await.explain(doing)?;
    outbox_core::migrate(&mut connection).await.explain(doing)?;
    let is_there = course == Course::Trigger;
    outbox_core::set_notify_trigger(&mut connection, is_there).await.explain(doing)?;
    database.run(ORDERS).await?;
    // As a relay that waits: who notifies nobody has less to do.
    let mut relay = PgListener::connect(&database.url).await.explain(doing)?;
    relay.listen("outbox_events").await.explain(doing)?;
    let relay = tokio::spawn(async move { while relay.recv().await.is_ok() {} });
    database.run("CHECKPOINT").await?;
    let (cpu, began) = (server.cpu()?, Instant::now());
    let tasks: Vec<_> = (0..writers)
        .map(|writer| tokio::spawn(write(database.url.clone(), course, writer, time)))
        .collect();
    let mut commits = 0;
    for task in tasks {
        let written = task.await.explain(|| "a writer panicked".to_owned())?;
        commits += written.explain(|| format!("a writer of `{}`", course.name()))?;
    }
    let (took, cpu) = (began.elapsed(), server.cpu()?.saturating_sub(cpu));
    relay.abort();
    judge(&database, course, commits).await?;
    server.remove(database).await?;
    Ok(Run {
        commits_per_s: number_of(commits) / took.as_secs_f64(),
        server_cpu_us: cpu.as_secs_f64() * 1e6 / number_of(commits.max(1)),
    })
}

/// Transactions, one after the other, on a connection; answers how many.
async fn write(url: String, course: Course, writer: u64, time: Duration) -> Result<u64, Failure> {
    let said = |error: &dyn std::fmt::Display| Failure(error.to_string());
    let mut connection = PgConnection::connect(&url).await.map_err(|error| said(&error))?;
    let note = String::from_utf8_lossy(&NOTE);
    let outbox = Outbox::default().notify(course == Course::Notify);
    let (began, mut commits) = (Instant::now(), 0);
    while began.elapsed() < time {
        let order = i64::try_from(writer << 32 | commits).unwrap_or_default();
        let mut tx = connection.begin().await.map_err(|error| said(&error))?;
        let placed = sqlx::query(ORDER).bind(order).bind(250_i64).bind(&*note);
        placed.execute(&mut *tx).await.map_err(|error| said(&error))?;
        match course {
            Course::Alone => {}
            Course::Append | Course::Notify => {
                let aggregate = Aggregate::new("Order", order.to_string());
                let aggregate = aggregate.map_err(|error| said(&error))?;
                let event = OutboxEvent::new("OrderPlaced", &aggregate, &*note);
                let event = event.map_err(|error| said(&error))?;
                outbox.append(&mut *tx, &event).await.map_err(|error| said(&error))?;
            }
            Course::Plain | Course::Trigger => {
                let row = sqlx::query(PLAIN).bind(order.to_string()).bind(17_i64).bind(&NOTE[..]);
                row.execute(&mut *tx).await.map_err(|error| said(&error))?;
            }
        }
        tx.commit().await.map_err(|error| said(&error))?;
        commits += 1;
    }
    Ok(commits)
}

/// Each transaction left its order, and its event unless it has none.
async fn judge(database: &Database, course: Course, commits: u64) -> Outcome {
    let sql = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox_events)";
    let row = database.row(sql).await?;
    let found: [i64; 2] = [row.get(0), row.get(1)];
    let commits = i64::try_from(commits).unwrap_or(i64::MAX);
    let expected = [commits, if course == Course::Alone { 0 } else { commits }];
    if found == expected {
        return Ok(());
    }
    failure(format!("WRONG RESULT: {found:?} orders and events, not {expected:?}"))
}

fn lines(all: &[Series]) -> Vec<Line> {
    let of = |series: &Series| {
        let alone =
            all.iter().find(|one| one.course == Course::Alone && one.writers == series.writers);
        let pairs = alone.into_iter().flat_map(|alone| series.runs.iter().zip(&alone.runs));
        let rates = |run: &Run| run.commits_per_s;
        Line {
            course: series.course.name(),
            writers: series.writers,
            commits_per_s: Spread::of(series.runs.iter().map(rates).collect()),
            against_alone: Spread::of(
                pairs.map(|(own, alone)| own.commits_per_s / alone.commits_per_s).collect(),
            ),
            server_cpu_us: Spread::of(series.runs.iter().map(|run| run.server_cpu_us).collect())
                .median,
        }
    };
    all.iter().map(of).collect()
}

/// As Markdown. "Adds" is the time that a transaction takes longer than the business alone, by pairs of rounds.
fn table(lines: &[Line]) -> String {
    let mut text = String::from(
        "| writers | transaction | commits/s | min to max | against alone, round by round | adds \
         | CPU µs of PostgreSQL per transaction |\n|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let Spread { min, median, max } = line.commits_per_s;
        let against = line.against_alone;
        let adds = (1.0 / against.median - 1.0) * 100.0;
        let _ = writeln!(
            text,
            "| {} | {} | {median:.0} | {min:.0} to {max:.0} | {:.3} ({:.3} to {:.3}) | {adds:.1} % | {:.0} |",
            line.writers, line.course, against.median, against.min, against.max, line.server_cpu_us
        );
    }
    text
}
