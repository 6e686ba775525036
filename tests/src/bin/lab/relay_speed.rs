//! How many rows a second a relay ships, on the services in the environment: `relay_speed EVENTS ROUNDS FENCING AROUND ROWS [BESIDE]`.
//!
//! AROUND is what else is in the outbox: `none`, `held` (ROWS behind one that was set aside), `sent` (ROWS that an old
//! transaction keeps in the index), `unsent` (ROWS behind those that are measured). BESIDE is another relay, which
//! takes turns with this one. `OUTBOX_BATCH__EVENTS_MAX` sets the size of a batch.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use sqlx::{Connection as _, PgConnection};
use tests::{Outbox, Ratio, Spread, eventually};

const AGGREGATES: u32 = 1_000;
/// Rows that go before the clock starts.
const WARM: i64 = 2_000;

/// How long what was held is watched.
const FOLLOWS: Duration = Duration::from_secs(10);

struct Course {
    events: i64,
    fencing: bool,
    around: String,
    rows: i64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [events, rounds, fencing, around, rows, rest @ ..] = &arguments[..] else {
        eprintln!("usage: relay_speed EVENTS ROUNDS FENCING AROUND ROWS [BESIDE]");
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse::<i64>().expect("a number");
    let (around, fencing) = (around.clone(), fencing == "true");
    let course = Course { events: number(events), fencing, around, rows: number(rows) };
    let own = std::env::current_exe().expect("this program has a path").with_file_name("relay");
    let beside = rest.first().map(PathBuf::from);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..number(rounds) {
        // Who begins takes turns, too.
        for turn in [round % 2 == 0, round % 2 == 1] {
            match (&beside, turn) {
                (_, true) => ours.push(ship(&own, &course).await),
                (Some(program), false) => theirs.push(ship(program, &course).await),
                (None, false) => {}
            }
        }
        println!("round {}: {:.0?} beside {:.0?}", round + 1, ours.last(), theirs.last());
    }
    println!("rows a second: {}", Spread::of(&ours));
    if let Some(ratio) = Ratio::of(&ours, &theirs) {
        let beside = Spread::of(&theirs).median;
        println!("beside: {beside:.0}; pair by pair {:.3} of it, ± {:.3}", ratio.mean, ratio.error);
    }
    ExitCode::SUCCESS
}

/// How long commands take beside what is held, and how fast that follows its head.
async fn commands(outbox: &Outbox, program: &Path) {
    let head = outbox.schema.number("SELECT seq FROM outbox_events WHERE error = 'x'").await;
    let head = head.to_string();
    let commands: [&[&str]; 3] =
        [&["status"], &["failed", "list"], &["failed", "retry", "--seq", &head]];
    for command in commands {
        let began = Instant::now();
        let output = outbox.command(program).args(command).output().expect("the program starts");
        println!("  `{}`: {:.0?}", command.join(" "), began.elapsed());
        assert!(output.status.success() || command == ["status"], "{output:?}");
    }
    let first = "SELECT coalesce((SELECT seq FROM outbox_events WHERE failed_at IS NOT NULL
        AND discarded_at IS NULL AND aggregate_type = 'Account' AND aggregate_id = 'held' ORDER BY seq LIMIT 1), 0)";
    tokio::time::sleep(FOLLOWS / 2).await;
    let (from, began) = (outbox.schema.number(first).await, Instant::now());
    tokio::time::sleep(FOLLOWS).await;
    let to = outbox.schema.number(first).await;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = (to - from) as f64 / began.elapsed().as_secs_f64();
    if to > 0 {
        println!("  what was held goes: {rate:.0} rows a second");
    }
}

/// Ships all of it once; answers rows a second, by the database's clock.
async fn ship(program: &Path, course: &Course) -> f64 {
    let Course { events, fencing, around, rows } = course;
    let mut outbox = Outbox::set("speed", 6).await;
    outbox.config.relay.lease = Duration::from_secs(15);
    outbox.config.database.statement_timeout = Duration::from_secs(20);
    if let Ok(size) = std::env::var("OUTBOX_BATCH__EVENTS_MAX") {
        outbox.config.batch.events_max = size.parse().expect("a number of rows");
    }
    outbox.config.kafka.fencing = *fencing;
    let mut elsewhere = PgConnection::connect(&outbox.schema.url()).await.expect("a session");
    let mut old =
        elsewhere.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("a transaction");
    if around == "sent" {
        sqlx::query("SELECT 1").execute(&mut *old).await.expect("a snapshot");
    }
    let fill = |aggregate: &str, count: i64, more: &str, values: &str| {
        format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload{more})
             SELECT gen_random_uuid(), 'Counted', 'Account', {aggregate}, convert_to(repeat('x', 200), 'UTF8'){values}
             FROM generate_series(1, {count}) n"
        )
    };
    match around.as_str() {
        "held" => {
            outbox.schema.run(&fill("'held'", 1, ", failed_at, error", ", now(), 'x'")).await;
            outbox.schema.run(&fill("'held'", *rows, ", failed_at, held", ", now(), true")).await;
        }
        "sent" => {
            outbox.schema.run(&fill("'sent'", *rows, "", "")).await;
            outbox.schema.run("UPDATE outbox_events SET sent_at = now()").await;
        }
        _ => {}
    }
    let all = fill(&format!("(n % {AGGREGATES})::text"), events + WARM, "", "");
    outbox.schema.run(&all).await;
    let last = outbox.schema.number("SELECT max(seq) FROM outbox_events").await;
    if around == "unsent" {
        outbox.schema.run(&fill("(n % 1000)::text", *rows, "", "")).await;
    }
    outbox.schema.run("ANALYZE outbox_events").await;
    // Otherwise the disk is still busy with what was just written.
    outbox.schema.run("CHECKPOINT").await;
    let mut relay = outbox.spawn(program);
    let sent = format!("SELECT count(sent_at) FROM outbox_events WHERE seq = {last}");
    eventually(Duration::from_mins(10), "all is sent", async || {
        assert!(relay.running(), "the relay has ended: {}", relay.log());
        outbox.schema.number(&sent).await == 1
    })
    .await;
    let first = last - events;
    let millis = format!(
        "SELECT (extract(epoch FROM (SELECT sent_at FROM outbox_events WHERE seq = {last})
            - (SELECT sent_at FROM outbox_events WHERE seq = {first})) * 1000)::bigint"
    );
    let millis = outbox.schema.number(&millis).await;
    if around == "held" {
        commands(&outbox, program).await;
    }
    relay.kill();
    old.rollback().await.expect("the end of a transaction");
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = *events as f64 * 1_000.0 / millis.max(1) as f64;
    rate
}
