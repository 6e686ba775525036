//! `cargo xtask relay-speed`: how many rows a second a relay ships, depending on what else is in the outbox.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use sqlx::{Connection as _, PgConnection};
use tests::{Executable, Outbox, Ratio, Spread, eventually};

use crate::lab;

const AGGREGATES: u32 = 1_000;
/// Rows that go before the clock starts.
const WARM: i64 = 2_000;

/// How long what was held is watched.
const FOLLOWS: Duration = Duration::from_secs(10);

/// What else is in the outbox.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Around {
    /// Nothing.
    None,
    /// Rows behind one that was parked.
    Held,
    /// Rows that were sent, which an old transaction keeps in the index.
    Sent,
    /// Unsent rows behind those that are measured.
    Unsent,
}

#[derive(Args, Debug)]
#[command(after_help = "The variable OUTBOX_BATCH__EVENTS_MAX sets the size of a batch.")]
pub(crate) struct RelaySpeedArgs {
    /// Rows that are measured.
    #[arg(long, default_value_t = 300_000)]
    events: u32,
    /// How often.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Whether each batch is a transaction of Kafka.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    fencing: bool,
    /// What else is in the outbox.
    #[arg(long, value_enum, default_value_t = Around::None)]
    around: Around,
    /// How many rows of that.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Another relay, which takes turns with this one: the program `lab` of another checkout.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

pub(crate) async fn run(args: RelaySpeedArgs) -> ExitCode {
    let own = Executable::relay(lab());
    let beside = args.beside.clone().map(Executable::relay);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        // Who begins takes turns, too.
        for turn in [round % 2 == 0, round % 2 == 1] {
            match (&beside, turn) {
                (_, true) => ours.push(ship(&own, &args).await),
                (Some(program), false) => theirs.push(ship(program, &args).await),
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
async fn commands(outbox: &Outbox, program: &Executable) {
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
async fn ship(program: &Executable, args: &RelaySpeedArgs) -> f64 {
    let (fencing, around) = (args.fencing, args.around);
    let (events, rows) = (i64::from(args.events), i64::from(args.rows));
    let mut outbox = Outbox::set("speed", 6).await;
    outbox.config.relay.lease = Duration::from_secs(15);
    outbox.config.database.statement_timeout = Duration::from_secs(20);
    if let Ok(size) = std::env::var("OUTBOX_BATCH__EVENTS_MAX") {
        outbox.config.batch.events_max = size.parse().expect("a number of rows");
    }
    outbox.config.kafka.fencing = fencing;
    let mut elsewhere = PgConnection::connect(&outbox.schema.url()).await.expect("a session");
    let mut old =
        elsewhere.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("a transaction");
    if around == Around::Sent {
        sqlx::query("SELECT 1").execute(&mut *old).await.expect("a snapshot");
    }
    let fill = |aggregate: &str, count: i64, more: &str, values: &str| {
        format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload{more})
             SELECT gen_random_uuid(), 'Counted', 'Account', {aggregate}, convert_to(repeat('x', 200), 'UTF8'){values}
             FROM generate_series(1, {count}) n"
        )
    };
    match around {
        Around::Held => {
            outbox.schema.run(&fill("'held'", 1, ", failed_at, error", ", now(), 'x'")).await;
            outbox.schema.run(&fill("'held'", rows, ", failed_at, held", ", now(), true")).await;
        }
        Around::Sent => {
            outbox.schema.run(&fill("'sent'", rows, "", "")).await;
            outbox.schema.run("UPDATE outbox_events SET sent_at = now()").await;
        }
        Around::None | Around::Unsent => {}
    }
    let all = fill(&format!("(n % {AGGREGATES})::text"), events + WARM, "", "");
    outbox.schema.run(&all).await;
    let last = outbox.schema.number("SELECT max(seq) FROM outbox_events").await;
    if around == Around::Unsent {
        outbox.schema.run(&fill("(n % 1000)::text", rows, "", "")).await;
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
    if around == Around::Held {
        commands(&outbox, program).await;
    }
    relay.kill();
    old.rollback().await.expect("the end of a transaction");
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = events as f64 * 1_000.0 / millis.max(1) as f64;
    rate
}
