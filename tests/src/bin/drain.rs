//! A first figure: how fast a backlog is drained, beside the loop that people write by hand.
//! `drain EVENTS [ROUNDS]` on the services in the environment; candidates interleaved, results verified.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use inbox_consumer::{Consumer, Routes, config::Config, migrate};
use rdkafka::{
    Message, TopicPartitionList,
    consumer::{CommitMode, Consumer as _},
    message::Headers as _,
};
use sqlx::{PgPool, Postgres};
use tests::{
    Count, CountAll, Counter, Producer, Record, Running, Schema, Services, Topic,
    soak::{
        checker::{self, EFFECTS, Expected},
        plan::Plan,
    },
    unique,
};
use tokio::sync::mpsc;

const PARTITIONS: i32 = 8;
const CANDIDATES: [&str; 3] = ["loop-partitions", "handler", "batch"];

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let (events, rounds) = (arguments.next().unwrap_or(100_000), arguments.next().unwrap_or(3));
    let services = Services::from_env();
    let topic = services.topic("drain", PARTITIONS).await;
    let plan = Plan {
        aggregates: 10_000,
        per_aggregate: events.div_ceil(10_000),
        copy_every: 20,
        seed: 7,
    };
    fill(&topic, &plan).await;
    let mut rates: HashMap<&str, Vec<f64>> = HashMap::new();
    for _ in 0..rounds {
        for candidate in CANDIDATES {
            let rate = once(candidate, &services, &topic, &plan).await;
            println!("{candidate:<16} {rate:>9.0} events/s");
            rates.entry(candidate).or_default().push(rate);
        }
    }
    println!("\n{:<16} {:>9} {:>9} {:>9}", "events/s", "min", "median", "max");
    for candidate in CANDIDATES {
        let rates = rates.get_mut(candidate).expect("every candidate ran");
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        println!("{candidate:<16} {:>9.0} {median:>9.0} {:>9.0}", rates[0], rates[rates.len() - 1]);
    }
}

async fn fill(topic: &Topic, plan: &Plan) {
    let producer = Producer::new(topic.bootstrap());
    let mut chunk = Vec::new();
    for planned in plan.records() {
        let payload = format!("{{\"n\":{},\"filler\":\"{}\"}}", planned.n, "x".repeat(200));
        let (id, aggregate) = (planned.id.to_string(), planned.aggregate.to_string());
        chunk.push(Record::event(&id, "Counted", &aggregate, &payload));
        if chunk.len() == 20_000 {
            producer.send(topic.name(), &chunk).await;
            chunk.clear();
        }
    }
    producer.send(topic.name(), &chunk).await;
}

/// One candidate on a schema and a group of its own; the result is checked like the soak's.
async fn once(candidate: &str, services: &Services, topic: &Topic, plan: &Plan) -> f64 {
    let schema = services.schema().await;
    schema.run(EFFECTS).await;
    let mut config = Config::new(unique("drain"), topic.bootstrap(), [topic.name()], schema.url());
    config.log.level = "error".into();
    let goal = plan.events();
    let began;
    if candidate == "loop-partitions" {
        schema
            .run("CREATE TABLE inbox (event_id text PRIMARY KEY, at timestamptz DEFAULT now())")
            .await;
        began = Instant::now();
        let task = tokio::spawn(by_hand(config.clone(), schema.url()));
        reach(&schema, goal).await;
        task.abort();
    } else {
        migrate::<Postgres>(&config).await.expect("the inbox tables");
        let routes = match candidate {
            "handler" => Routes::default().on("Counted", Counter),
            _ => Routes::default().on_batch("Counted", CountAll),
        };
        let consumer = Consumer::builder(config, routes).build().await.expect("a sound consumer");
        began = Instant::now();
        let running = Running::of(consumer);
        reach(&schema, goal).await;
        let took = began.elapsed();
        running.stop().await;
        return verified(&schema, plan, took).await;
    }
    let took = began.elapsed();
    verified(&schema, plan, took).await
}

async fn verified(schema: &Schema, plan: &Plan, took: Duration) -> f64 {
    let expected = Expected { aggregates: plan.aggregates, per_aggregate: plan.per_aggregate };
    let wrong = checker::check(schema.pool(), expected).await.expect("reading the effects");
    assert!(wrong.is_empty(), "{wrong:?}");
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let events = plan.events() as f64;
    events / took.as_secs_f64()
}

async fn reach(schema: &Schema, goal: u64) {
    let goal = i64::try_from(goal).expect("a small number");
    while schema.number("SELECT coalesce(max(effect), 0) FROM effects").await < goal {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while schema.number("SELECT count(*) FROM effects").await < goal {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What people write: rdkafka's stream, a task per partition, a transaction per event.
async fn by_hand(config: Config, url: String) {
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(8)
        .connect(&url)
        .await
        .expect("the database");
    let consumer = tests::hand_made(&config);
    let mut lanes: HashMap<i32, mpsc::Sender<(String, String, i64)>> = HashMap::new();
    let (mut last, mut positions) = (Instant::now(), HashMap::new());
    loop {
        let message = consumer.recv().await.expect("a record");
        let headers = message.headers().expect("headers");
        let id = headers.iter().find(|h| h.key == "event_id").and_then(|h| h.value).expect("an id");
        let count: Count =
            serde_json::from_slice(message.payload().expect("a payload")).expect("JSON");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let event = (text(id), text(message.key().expect("a key")), count.n);
        let pool = pool.clone();
        let lane = lanes.entry(message.partition()).or_insert_with(|| {
            let (sender, mut receiver) = mpsc::channel(5_000);
            tokio::spawn(async move {
                while let Some(event) = receiver.recv().await {
                    effect(&pool, event).await.expect("an effect");
                }
            });
            sender
        });
        lane.send(event).await.expect("the lane lives");
        positions.insert(message.partition(), message.offset() + 1);
        if last.elapsed() > Duration::from_secs(1) {
            let mut list = TopicPartitionList::new();
            for (partition, next) in &positions {
                let offset = rdkafka::Offset::Offset(*next);
                list.add_partition_offset(message.topic(), *partition, offset).expect("an offset");
            }
            // It may run ahead of the lanes: the loop by hand is not made safer than people make it.
            let _ = consumer.commit(&list, CommitMode::Async);
            last = Instant::now();
        }
    }
}

async fn effect(
    pool: &PgPool,
    (id, aggregate, n): (String, String, i64),
) -> Result<(), sqlx::Error> {
    let mut tx = pool.begin().await?;
    let claimed = sqlx::query("INSERT INTO inbox (event_id) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(&id)
        .execute(&mut *tx)
        .await?;
    if claimed.rows_affected() == 1 {
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, $3, 0)")
            .bind(aggregate)
            .bind(n)
            .bind(id)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await
}
