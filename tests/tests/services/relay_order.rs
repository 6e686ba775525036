//! The relay: rows in their order, none passed over (F1, F2, F5, F6, F7, E6).

use std::time::{Duration, UNIX_EPOCH};

use inbox_consumer::testing::broker::{Failure, MockBroker, Request};
use outbox_core::OutboxEvent;
use outbox_relay::Ended;
use sqlx::Connection as _;
use tests::{Arrival, Outbox, SOON, Services, arrivals, copies, counted_event, eventually, firsts};

use super::commands::ran;
use crate::programs::RELAY;

/// Each aggregate has `1..=last`, first arrivals in sequence.
pub(super) fn in_order(arrivals: &[Arrival], aggregates: &[&str], last: i64) {
    let firsts = firsts(arrivals);
    for aggregate in aggregates {
        let numbers = firsts.get(*aggregate).map_or(&[][..], Vec::as_slice);
        let wanted: Vec<i64> = (1..=last).collect();
        assert_eq!(numbers, wanted, "aggregate {aggregate}");
    }
    assert_eq!(firsts.len(), aggregates.len(), "{:?}", firsts.keys());
}

/// F1: numbers become visible out of order, and nothing is passed over.
#[tokio::test]
async fn a_row_that_becomes_visible_late_is_not_passed_over() {
    let outbox = Outbox::set("late", 2).await;
    let mut slow = sqlx::PgConnection::connect(&outbox.schema.url()).await.unwrap();
    let mut open = slow.begin().await.unwrap();
    outbox_core::append(&mut *open, &counted_event("slow", 1)).await.unwrap();
    let running = outbox.start().await;
    outbox.append("fast", 1, 3).await;
    let found = outbox.arrived(3).await;
    in_order(&found, &["fast"], 3);
    open.commit().await.unwrap();
    let found = outbox.arrived(4).await;
    assert_eq!(firsts(&found)["slow"], [1]);
    outbox.drained(SOON).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(copies(&outbox.arrivals().await), 0, "a relay that is not hurt sends once");
}

/// F2: a transaction that is open for long somewhere else holds nothing up.
#[tokio::test]
async fn a_long_transaction_elsewhere_stalls_nothing() {
    let outbox = Outbox::set("elsewhere", 1).await;
    let mut other = sqlx::PgConnection::connect(&Services::from_env().postgres).await.unwrap();
    let mut open = other.begin().await.unwrap();
    sqlx::query("SELECT pg_current_xact_id()").execute(&mut *open).await.unwrap();
    let running = outbox.start().await;
    outbox.append("a", 1, 5).await;
    in_order(&outbox.arrived(5).await, &["a"], 5);
    running.stop().await;
    open.rollback().await.unwrap();
}

/// When an event happened is in a header alone: by the timestamp of a record the broker would delete what is older than
/// the topic's retention, and refuse what is ahead of its clock.
#[tokio::test]
async fn an_event_of_another_time_is_sent_with_the_time_of_sending() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    let outbox = Outbox::set("other_time", 1).await;
    let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    let mut connection = sqlx::PgConnection::connect(&outbox.schema.url()).await.unwrap();
    for (aggregate, days) in [("old", -30), ("ahead", 30)] {
        let event = counted_event(aggregate, 1).with_occurred_at_ms(now + days * DAY_MS).unwrap();
        outbox_core::append(&mut connection, &event).await.unwrap();
    }
    let running = outbox.start().await;
    for arrival in outbox.arrived(2).await {
        let late = arrival.at_ms - now;
        assert!((-1_000..60_000).contains(&late), "{}: {late} ms after it", arrival.key);
    }
    outbox.drained(SOON).await;
    running.stop().await;
}

/// NOTIFY alone wakes the relay, and without rows it asks for nothing.
#[tokio::test]
async fn a_notify_wakes_a_relay_that_does_not_poll() {
    let mut outbox = Outbox::set("notify", 1).await;
    outbox.config.wake.poll_interval = Duration::ZERO;
    let running = outbox.start().await;
    outbox.append("a", 1, 1).await;
    outbox.arrived(1).await;
    eventually(SOON, "it rests", async || outbox.waiting().await == 0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let looks = running.counters.read().looks;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(running.counters.read().looks, looks, "nothing is asked without a reason");
    outbox.append("a", 2, 2).await;
    outbox.arrived(2).await;
    running.stop().await;
}

/// Who inserts by plain SQL wakes nobody; the trigger does, and the command makes it and removes it.
#[tokio::test]
async fn with_the_trigger_a_plain_insert_wakes_a_relay_that_does_not_poll() {
    const PLAIN: &str =
        "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload)
        VALUES (gen_random_uuid(), 'Counted', 'Account', 'plain', '{\"n\": 1}')";
    let mut outbox = Outbox::set("trigger", 1).await;
    outbox.config.wake.poll_interval = Duration::ZERO;
    let migrated = async |state: &str| {
        let args = format!("migrate --notify-trigger {state}");
        let (code, out, err) = ran(outbox.command(&RELAY), &args).await;
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        out
    };
    let said = migrated("on").await;
    assert!(said.contains("each INSERT into outbox_events wakes the relays"), "{said}");
    let running = outbox.start().await;
    outbox.append("a", 1, 1).await;
    outbox.arrived(1).await;
    outbox.schema.run(PLAIN).await;
    outbox.arrived(2).await;
    outbox.drained(SOON).await;
    let said = migrated("off").await;
    assert!(said.contains("no trigger"), "{said}");
    outbox.schema.run(PLAIN).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(outbox.waiting().await, 1, "nobody told the relay");
    outbox.append("a", 2, 2).await;
    outbox.drained(SOON).await;
    running.stop().await;
}

/// The poll finds what nobody told, and does not ask more often than it was told to.
#[tokio::test]
async fn a_poll_finds_rows_that_nobody_told_of() {
    let mut outbox = Outbox::set("poll", 1).await;
    outbox.config.wake.notify = false;
    outbox.config.wake.poll_interval = Duration::from_millis(200);
    let running = outbox.start().await;
    outbox.append("a", 1, 2).await;
    in_order(&outbox.arrived(2).await, &["a"], 2);
    let looks = running.counters.read().looks;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let more = running.counters.read().looks - looks;
    assert!(more <= 11, "{more} looks in two seconds at 200 ms");
    running.stop().await;
}

/// F7: a full queue of the client makes the relay wait with the very record, so that none overtakes it.
#[tokio::test]
async fn a_full_queue_reorders_nothing() {
    let mut outbox = Outbox::set("queue", 3).await;
    outbox.config.kafka.raw.set("queue.buffering.max.messages", "10");
    outbox.config.batch.events_max = 2_000;
    let names: Vec<String> = (0..20).map(|a| format!("a{a}")).collect();
    let last = 300;
    for n in (1..=last).step_by(100) {
        let numbers = n..n + 100;
        let events: Vec<OutboxEvent> =
            numbers.flat_map(|n| names.iter().map(move |a| counted_event(a, n))).collect();
        outbox.append_all(&events).await;
    }
    let running = outbox.start().await;
    outbox.drained(Duration::from_mins(2)).await;
    running.stop().await;
    let found = outbox.arrivals().await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    in_order(&found, &names, last);
    assert_eq!(copies(&found), 0);
}

/// F5: the first produce request of each batch fails, the retries keep the order.
#[tokio::test]
async fn a_produce_request_that_is_repeated_reorders_nothing() {
    let mut outbox = Outbox::set("retry", 1).await;
    let broker = MockBroker::start(&[("mocked", 1)]).unwrap();
    outbox.config.kafka.bootstrap = broker.bootstrap();
    outbox.config.kafka.topic = "mocked".into();
    outbox.config.batch.events_max = 10;
    let running = outbox.start().await;
    for batch in 0..5 {
        broker.fail_next(Request::Produce, &[Failure::NotLeader]).unwrap();
        outbox.append("a", batch * 10 + 1, batch * 10 + 10).await;
        outbox.drained(SOON).await;
    }
    running.stop().await;
    in_order(&arrivals(&broker.bootstrap(), "mocked", 1).await, &["a"], 50);
}

/// F6: a partition that does not answer in time makes the batch unknown: everything is read again, and
/// nothing of it is missing or overtaken.
#[tokio::test]
async fn a_batch_that_runs_into_its_time_out_is_sent_again_in_order() {
    let mut outbox = Outbox::set("timeout", 1).await;
    let broker = MockBroker::start(&[("mocked", 2)]).unwrap();
    outbox.config.kafka.bootstrap = broker.bootstrap();
    outbox.config.kafka.topic = "mocked".into();
    outbox.config.kafka.delivery_timeout = Duration::from_secs(1);
    for fencing in [true, false] {
        outbox.config.kafka.fencing = fencing;
        let first = if fencing { 1 } else { 21 };
        let running = outbox.start().await;
        outbox.append("a", first, first + 9).await;
        outbox.append("b", first, first + 9).await;
        outbox.drained(SOON).await;
        // A partition without leader would do as well, but librdkafka's mock dies of a request for it; so
        // it may of a broker that is taken down while other tests start processes.
        broker.round_trip(1, Duration::from_secs(30)).unwrap();
        outbox.append("a", first + 10, first + 19).await;
        outbox.append("b", first + 10, first + 19).await;
        eventually(SOON, "a batch is unknown", async || running.counters.read().unknown > 0).await;
        assert!(outbox.waiting().await > 0, "unknown is not sent");
        broker.round_trip(1, Duration::ZERO).unwrap();
        outbox.drained(SOON).await;
        running.stop().await;
    }
    in_order(&arrivals(&broker.bootstrap(), "mocked", 2).await, &["a", "b"], 40);
}

/// E6: keys land where Java's clients put them, whatever their length.
#[tokio::test]
async fn keys_land_on_the_partitions_of_java() {
    let outbox = Outbox::set("keys", 12).await;
    let keys: Vec<String> =
        (0..1_000).map(|n: usize| format!("{}{n}", "ключ-é-k".repeat(n % 7))).collect();
    let events: Vec<OutboxEvent> = keys.iter().map(|key| counted_event(key, 1)).collect();
    outbox.append_all(&events).await;
    let running = outbox.start().await;
    outbox.drained(SOON).await;
    running.stop().await;
    let found = outbox.arrivals().await;
    assert_eq!(found.len(), keys.len());
    for arrival in &found {
        let wanted = (murmur2(arrival.key.as_bytes()) & 0x7fff_ffff) % 12;
        assert_eq!(arrival.partition, wanted, "{}", arrival.key);
    }
}

/// Java's `Utils.murmur2`, from its definition.
pub(super) fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = 0x9747_b28c_u32 ^ u32::try_from(data.len()).unwrap();
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    for (at, byte) in rest.iter().enumerate() {
        h ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ (h >> 15)).cast_signed()
}

/// The vectors of Kafka's own test of it (`UtilsTest.testMurmur2`).
#[test]
fn the_hash_is_javas() {
    for (key, hash) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ] {
        assert_eq!(murmur2(key.as_bytes()), hash, "{key}");
    }
}
