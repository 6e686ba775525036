//! What an event costs that is appended to the outbox, up to the point where a relay sees it.

use std::time::Instant;

use outbox_core::{Aggregate, OutboxEvent};
use sqlx::{Connection as _, PgConnection};
use tests::{Schema, Services};

use super::{
    figures::{per, size, wal, wal_since},
    tap::Tap,
};

/// Enough for the averages to stand still.
const EVENTS: u64 = 5_000;

/// Appends one event per transaction, then many in one.
pub(crate) async fn measure(services: &Services) {
    println!("\nappending to the outbox; per event:\n");
    println!("{:<28} {:>9} {:>8} {:>8} {:>8}", "", "messages", "WAL", "rows", "time");
    for at_once in [1, 100] {
        let schema = services.schema().await;
        let tap = Tap::start(&services.postgres).await;
        let url = schema.url_at(&tap.url(&services.postgres));
        let mut connection = PgConnection::connect(&url).await.expect("the database");
        outbox_core::migrate(&mut connection).await.expect("the outbox tables");
        schema.run("CHECKPOINT").await;
        let (begin, messages, began) = (wal(&schema).await, tap.messages(), Instant::now());
        for place in 0..EVENTS / at_once {
            append(&mut connection, place, at_once).await;
        }
        let time = began.elapsed();
        show(at_once, &schema, wal_since(&schema, &begin).await, tap.messages() - messages).await;
        println!(" {:>6.1} s", time.as_secs_f64());
    }
}

async fn append(connection: &mut PgConnection, place: u64, at_once: u64) {
    let order = Aggregate::new("Order", (place % 1_000).to_string()).expect("an aggregate");
    let payload = "x".repeat(200);
    let event = |_| OutboxEvent::new("OrderPlaced", &order, &payload).expect("an event");
    let events: Vec<OutboxEvent> = (0..at_once).map(event).collect();
    let mut tx = connection.begin().await.expect("a transaction");
    outbox_core::append_all(&mut *tx, &events).await.expect("appended");
    tx.commit().await.expect("committed");
}

async fn show(at_once: u64, schema: &Schema, wal: u64, messages: u64) {
    print!(
        "{:<28} {:>9.3} {:>6.0} B {:>6.0} B",
        format!("{at_once} in a transaction"),
        per(messages, EVENTS),
        per(wal, EVENTS),
        per(size(schema, "outbox_events").await, EVENTS)
    );
}
