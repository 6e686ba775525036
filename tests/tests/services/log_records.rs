//! Records of every form: tombstones, empty payloads, odd headers, sizes at the limit.

use inbox_consumer::{Ended, Event, Handler, HandlerResult, Routes, Tx};
use service_kit::Random;
use sqlx::Postgres;
use tests::{Count, Counter, Record, SOON, Stage, counted, eventually};

use super::runtime_support::watermark;

/// Takes a tombstone as number zero.
struct Removing;

impl Handler<Postgres> for Removing {
    type Event = Option<Count>;

    async fn handle(
        &self,
        event: &Event<Option<Count>>,
        tx: &mut Tx<'_, Postgres>,
    ) -> HandlerResult {
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, $3, 0)")
            .bind(event.aggregate().aggregate_id())
            .bind(event.payload.as_ref().map_or(0, |count| count.n))
            .bind(event.id().to_string())
            .execute(tx)
            .await?;
        Ok(())
    }
}

fn bare(key: &str, id: &str, event_type: &str) -> Record {
    Record::default().key(key).header("event_id", id).header("event_type", event_type)
}

/// E8: a tombstone is an event for a handler that takes an optional payload and is parked for others; so
/// are an empty payload and null headers where something is needed. A repeated header counts by its last
/// value, further null headers disturb nobody.
#[tokio::test]
async fn tombstones_and_odd_headers_are_events_or_parked() {
    let stage = Stage::set("odd", 1).await;
    let records = [
        bare("removed", "1", "Removed"),
        bare("also", "2", "Removed").payload("{\"n\":2}"),
        bare("tombstone", "3", "Counted"),
        bare("empty", "4", "Counted").payload(""),
        Record::default()
            .key("no-id")
            .null_header("event_id")
            .header("event_type", "Counted")
            .payload("{\"n\":5}"),
        Record::default().key("no-type").header("event_id", "6").null_header("event_type"),
        bare("last-null", "7", "Counted").null_header("event_id").payload("{\"n\":7}"),
        counted("twice", 8).header("event_type", "Removed").null_header("other").header("", "x"),
        bare("no-headers", "9", "Counted").payload("not JSON"),
        Record::default().key("naked"),
        counted("fine", 11).null_header("traceparent"),
    ];
    stage.send(&records).await;
    let routes = Routes::default().on("Counted", Counter).on("Removed", Removing);
    let running = stage.start(routes).await;
    eventually(SOON, "all are settled", async || {
        stage.effects().await + stage.parked("").await == 11
    })
    .await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    for (aggregate, n) in [("removed", 0), ("also", 2), ("twice", 8), ("fine", 11)] {
        assert_eq!(stage.of(aggregate).await, [n], "{aggregate}");
    }
    assert_eq!(stage.parked("undecodable").await, 7);
    assert_eq!(watermark(&stage, 0).await, 11);
}

/// E8: records of any content are settled: handled or parked, never a poisoned partition.
#[tokio::test]
async fn records_of_any_content_are_settled() {
    let stage = Stage::set("any", 2).await;
    let mut random = Random::new(0x9e37);
    let mut next = |below: usize| usize::try_from(random.below(below as u64)).unwrap();
    let names = ["event_id", "event_type", "aggregate_id", "aggregate_version", "occurred_at", "x"];
    let values: [&[u8]; 7] =
        [b"", b"Counted", b"-1", b"\xff\xfe\x00", b"{\"n\":1}", b"99999999999999999999", b"\xf0"];
    let records: Vec<Record> = (0..300)
        .map(|_| {
            let mut record = Record::default().partition(i32::try_from(next(2)).unwrap());
            if next(3) > 0 {
                record = record.key(values[next(7)]);
            }
            if next(3) > 0 {
                record = record.payload(values[next(7)]);
            }
            for _ in 0..next(6) {
                let (name, value) = (names[next(6)], next(8));
                record = match values.get(value) {
                    Some(value) => record.header(name, *value),
                    None => record.null_header(name),
                };
            }
            record
        })
        .collect();
    stage.send(&records).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let sum = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
    eventually(SOON, "all are settled", async || stage.schema.number(sum).await == 300).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert!(stage.parked("undecodable").await > 100);
}

/// E9: a record of just below and just at the limit is handled, one byte more is parked without being
/// decoded, and what follows goes on.
#[tokio::test]
async fn a_record_above_the_limit_is_parked() {
    const LIMIT: usize = 2048;
    let mut stage = Stage::set("large", 1).await;
    stage.config.events.event_bytes_max = LIMIT;
    let sized = |aggregate: &str, size: usize| {
        let id = format!("id-{aggregate}");
        // Names and values of both headers, the key, and the payload around its filling.
        let fixed = "event_id".len() + id.len() + "event_type".len() + "Counted".len();
        let around = "{\"n\":1,\"x\":\"\"}".len() + aggregate.len();
        let filling = "x".repeat(size - fixed - around);
        let payload = format!("{{\"n\":1,\"x\":\"{filling}\"}}");
        Record::event(&id, "Counted", aggregate, &payload)
    };
    let (below, at) = (sized("below", LIMIT - 1), sized("at", LIMIT));
    let (above, far) = (sized("above", LIMIT + 1), sized("far", 800_000));
    stage.send(&[above, below, far, at, counted("next", 1)]).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "all are settled", async || {
        stage.effects().await + stage.parked("").await == 5
    })
    .await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    for aggregate in ["below", "at", "next"] {
        assert_eq!(stage.of(aggregate).await, [1], "{aggregate}");
    }
    assert_eq!(stage.parked("undecodable").await, 2);
    assert_eq!(watermark(&stage, 0).await, 5);
}
