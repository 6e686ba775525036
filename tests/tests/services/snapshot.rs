//! A snapshot that stays open while events come: each has a transaction of its own, and each transaction leaves versions
//! of rows that nobody may remove. What is counted is pages, which no machine is too slow for.

use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Routes};
use sqlx::{Connection as _, PgConnection};
use tests::{Counter, Outbox, OwnPostgres, Schema, Services, Stage, counted, eventually};

/// What a machine with two cores has in some minutes: an hour at 42 events/s. In one partition with few aggregates, so
/// that each lane's row has as many versions as it can.
const EVENTS: i64 = 150_000;
const AGGREGATES: i64 = 16;
/// Rows of the outbox for each hundred events.
const ROWS: i64 = 20;
/// Sessions tell what they have read about once a second.
const TOLD: Duration = Duration::from_secs(3);
const FIFTH: Duration = Duration::from_mins(5);

const INBOX: [&str; 3] = ["inbox_lanes", "inbox_partitions", "inbox_events"];
const OUTBOX: [&str; 2] = ["outbox_relays", "outbox_events"];

/// Pages of a table and of its indexes that were looked at, by everybody.
async fn looked_at(schema: &Schema, table: &str) -> i64 {
    let pages = format!(
        "SELECT (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint FROM pg_statio_user_tables
         WHERE schemaname = current_schema() AND relname = '{table}'"
    );
    schema.number(&pages).await
}

async fn all_of(stage: &Stage, outbox: &Outbox) -> Vec<i64> {
    tokio::time::sleep(TOLD).await;
    let mut pages = Vec::new();
    for (schema, tables) in [(&stage.schema, &INBOX[..]), (&outbox.schema, &OUTBOX[..])] {
        for table in tables {
            pages.push(looked_at(schema, table).await);
        }
    }
    pages
}

/// The last fifth reads no more for each transaction than the first one does.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_snapshot_makes_no_transaction_dearer() {
    let (services, own) = (Services::from_env(), OwnPostgres::start().await);
    let mut stage = Stage::with(services.topic("snapshot", 1).await, own.schema().await).await;
    stage.config.batch.events_max = 1;
    let outbox = Outbox::with(services.topic("relayed", 1).await, own.schema().await).await;
    let mut elsewhere = PgConnection::connect(&own.url()).await.unwrap();
    let mut old = elsewhere.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SELECT 1").execute(&mut *old).await.unwrap();

    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let relay = outbox.start().await;
    let mut fifths = Vec::new();
    let mut before = all_of(&stage, &outbox).await;
    for fifth in 0..5 {
        let began = Instant::now();
        let (from, to) = (EVENTS / 5 * fifth, EVENTS / 5 * (fifth + 1));
        let events: Vec<_> = (from..to)
            .map(|n| counted(&format!("a{}", n % AGGREGATES), n / AGGREGATES + 1).partition(0))
            .collect();
        stage.send(&events).await;
        let rows = EVENTS / 5 * ROWS / 100;
        for chunk in 0..20 {
            let append = format!(
                "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload)
                 SELECT gen_random_uuid(), 'Counted', 'A', (n % 100)::text, '{{}}' FROM generate_series(1, {}) n",
                rows / 20
            );
            outbox.schema.run(&append).await;
            eventually(FIFTH, "events of a fifth", async || {
                stage.effects().await >= from + (to - from) / 20 * (chunk + 1)
            })
            .await;
        }
        outbox.drained(FIFTH).await;
        let took = began.elapsed();
        let now = all_of(&stage, &outbox).await;
        let each = now.iter().zip(&before).map(|(now, before)| (now - before) as f64);
        let inbox = INBOX.map(|_| EVENTS / 5).into_iter();
        let per = inbox.chain(OUTBOX.map(|_| rows));
        let costs: Vec<f64> = each.zip(per).map(|(pages, per)| pages / per as f64).collect();
        println!("{to} transactions, {took:.1?}: {costs:.2?} pages of {INBOX:?} and {OUTBOX:?}");
        fifths.push(costs);
        before = now;
    }
    assert_eq!(stage.effects().await, EVENTS);
    old.rollback().await.unwrap();
    assert_eq!(running.stop().await, Ended::Shutdown);
    relay.stop().await;
    // The trees of keys grow by a level, and a claim goes down twice. A relay reads what was sent until that takes 5 ms.
    for (place, table) in INBOX.iter().chain(&OUTBOX).enumerate() {
        let (first, last) = (fifths[0][place], fifths[4][place]);
        let more = if OUTBOX.contains(table) { 10.0 } else { 3.0 };
        assert!(last <= first * 1.1 + more, "{table}: {first:.2} and {last:.2} pages each");
    }
}
