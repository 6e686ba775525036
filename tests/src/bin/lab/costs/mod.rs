//! What an event costs the database: messages, transactions, WAL, rows kept; and how long it takes: the figures of
//! docs/costs.md.

mod by_hand;
mod figures;
mod latency;
mod outbox;
mod tap;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use inbox_consumer::{Consumer, Routes, config::Config, migrate};
use sqlx::Postgres;
use tests::{
    CountAll, Counter, Producer, Record, Running, Schema, Services, Topic,
    soak::checker::{self, EFFECTS, Expected},
    unique,
};

use figures::{per, size, wal, wal_since};
use tap::Tap;

const PARTITIONS: i32 = 8;
const AGGREGATES: u64 = 1_000;
const CANDIDATES: [&str; 3] = ["loop", "handler", "batch handler"];

/// What one candidate cost, per event.
struct Cost {
    messages: f64,
    transactions: f64,
    wal_bytes: f64,
    inbox_bytes: f64,
    effect_bytes: f64,
    time: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct CostsArgs {
    /// Events of the backlog that each candidate handles.
    #[arg(default_value_t = 100_000)]
    events: u64,
}

pub(crate) async fn run(args: CostsArgs) -> ExitCode {
    let events = args.events;
    let services = Services::from_env();
    let topic = services.topic("costs", PARTITIONS).await;
    fill(&topic, events).await;
    println!("{events} events, {AGGREGATES} aggregates, {PARTITIONS} partitions; per event:\n");
    println!(
        "{:<14} {:>9} {:>13} {:>8} {:>11} {:>12} {:>8}",
        "", "messages", "transactions", "WAL", "inbox rows", "effect rows", "time"
    );
    for candidate in CANDIDATES {
        let cost = once(candidate, &services, &topic, events).await;
        println!(
            "{candidate:<14} {:>9.3} {:>13.4} {:>6.0} B {:>9.0} B {:>10.0} B {:>6.1} s",
            cost.messages,
            cost.transactions,
            cost.wal_bytes,
            cost.inbox_bytes,
            cost.effect_bytes,
            cost.time.as_secs_f64()
        );
    }
    outbox::measure(&services).await;
    latency::measure(&services).await;
    ExitCode::SUCCESS
}

async fn fill(topic: &Topic, events: u64) {
    let producer = Producer::new(topic.bootstrap());
    let mut chunk = Vec::new();
    for place in 0..events {
        let (aggregate, n) = (place % AGGREGATES, place / AGGREGATES + 1);
        let payload = format!("{{\"n\":{n},\"filler\":\"{}\"}}", "x".repeat(200));
        let id = uuid::Uuid::now_v7().to_string();
        chunk.push(Record::event(&id, "Counted", &aggregate.to_string(), &payload));
        if chunk.len() == 20_000 {
            producer.send(topic.name(), &chunk).await;
            chunk.clear();
        }
    }
    producer.send(topic.name(), &chunk).await;
}

/// One candidate on a schema and a group of its own, seen through a tap on its connections.
async fn once(candidate: &str, services: &Services, topic: &Topic, events: u64) -> Cost {
    let schema = services.schema().await;
    schema.run(EFFECTS).await;
    let tap = Tap::start(&services.postgres).await;
    let url = schema.url_at(&tap.url(&services.postgres));
    let mut config = Config::new(unique("costs"), topic.bootstrap(), [topic.name()], url.clone());
    config.log.level = "error".into();
    if candidate == "loop" {
        schema.run(by_hand::INBOX).await;
    } else {
        migrate::<Postgres>(&config).await.expect("the inbox tables");
    }
    schema.run("CHECKPOINT").await;
    let (wal, messages, began) = (wal(&schema).await, tap.messages(), Instant::now());
    let transactions = match candidate {
        "loop" => {
            let task = tokio::spawn(by_hand::run(config, url));
            reach(&schema, events).await;
            task.abort();
            events
        }
        _ => {
            let routes = match candidate {
                "handler" => Routes::default().on("Counted", Counter),
                _ => Routes::default().on_batch("Counted", CountAll),
            };
            let consumer = Consumer::builder(config, routes).build().await.expect("a consumer");
            let running = Running::of(consumer);
            reach(&schema, events).await;
            let batches = running.counters.read().batches;
            running.stop().await;
            batches
        }
    };
    let time = began.elapsed();
    let wal = wal_since(&schema, &wal).await;
    let expected = Expected { aggregates: AGGREGATES, per_aggregate: events / AGGREGATES };
    let wrong = checker::check(schema.pool(), expected).await.expect("reading the effects");
    assert!(wrong.is_empty(), "{candidate}: {wrong:?}");
    let inbox = if candidate == "loop" { "inbox" } else { "inbox_events" };
    Cost {
        messages: per(tap.messages() - messages, events),
        transactions: per(transactions, events),
        wal_bytes: per(wal, events),
        inbox_bytes: per(size(&schema, inbox).await, events),
        effect_bytes: per(size(&schema, "effects").await, events),
        time,
    }
}

async fn reach(schema: &Schema, events: u64) {
    let goal = i64::try_from(events).expect("a small number");
    while schema.number("SELECT count(*) FROM effects").await < goal {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
