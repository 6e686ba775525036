//! How long it takes from sending an event to its effect's commit, and what the process weighs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use inbox_consumer::Routes;
use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord},
};
use tests::{Counter, OwnPostgres, Services, Stage};

/// Events per second, and for how long.
const RATE: u64 = 200;
const SECONDS: u64 = 20;

/// A trickle through a consumer, on a server that notes when each transaction committed.
pub(crate) async fn measure(services: &Services) {
    let postgres = OwnPostgres::start_with("track_commit_timestamp=on").await;
    let topic = services.topic("latency", 8).await;
    let stage = Stage::with(topic, postgres.schema().await).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", stage.topic.bootstrap())
        .set("linger.ms", "0")
        .create()
        .expect("a producer");
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / RATE));
    for place in 0..RATE * SECONDS {
        tick.tick().await;
        send(&producer, stage.topic.name(), place);
    }
    let goal = i64::try_from(RATE * SECONDS).expect("a small number");
    while stage.effects().await < goal {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    running.stop().await;
    // The first second warms up.
    let query = "SELECT (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint - n
        FROM effects ORDER BY effect OFFSET $1";
    let mut micros: Vec<i64> = sqlx::query_scalar(query)
        .bind(i64::try_from(RATE).expect("a small number"))
        .fetch_all(stage.schema.pool())
        .await
        .expect("times of commits");
    micros.sort_unstable();
    let at = |share: usize| {
        format!(
            "{}.{:02} ms",
            share_of(&micros, share) / 1000,
            share_of(&micros, share) % 1000 / 10
        )
    };
    println!(
        "\nlatency at {RATE} events/s, from send to commit: p50 {}, p99 {}, highest {}",
        at(500),
        at(990),
        at(1000)
    );
    println!("highest resident memory of this process, both roles: {}", memory());
}

fn share_of(sorted: &[i64], thousandths: usize) -> i64 {
    let place = (sorted.len() * thousandths / 1000).min(sorted.len() - 1);
    sorted[place]
}

fn send(producer: &FutureProducer, topic: &str, place: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let payload = format!("{{\"n\":{}}}", now.as_micros());
    let (key, id) = ((place % 1_000).to_string(), uuid::Uuid::now_v7().to_string());
    let headers = OwnedHeaders::new()
        .insert(Header { key: "event_id", value: Some(&id) })
        .insert(Header { key: "event_type", value: Some("Counted") });
    let record = FutureRecord::to(topic).key(&key).payload(&payload).headers(headers);
    let queued = producer.send_result(record);
    assert!(queued.is_ok(), "the producer's queue is not full at such a rate");
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown here".to_owned(), |line| line.trim().to_owned())
}
