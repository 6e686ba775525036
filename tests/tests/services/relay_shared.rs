//! The relay: several of them share an outbox, each with aggregates of its own.

use tests::{Outbox, SOON, copies, eventually};

use super::{relay_destinations::aggregates, relay_order::in_order};
use crate::programs::RELAY;

async fn shared(stem: &str) -> Outbox {
    let mut outbox = Outbox::set(stem, 4).await;
    outbox.config.relay.shared = true;
    outbox
}

/// Waits until the relays have this many of the sixteen shards.
async fn have(outbox: &Outbox, wanted: &[i64]) {
    let shares = "SELECT length(replace(shards::bit(16)::text, '0', ''))::bigint FROM outbox_relays
        WHERE lease_until > now() AND shards <> 0 ORDER BY 1 DESC";
    eventually(SOON, &format!("{wanted:?} shards each"), async || {
        let shares: Vec<i64> =
            sqlx::query_scalar(shares).fetch_all(outbox.schema.pool()).await.unwrap();
        shares == wanted
    })
    .await;
}

async fn append(outbox: &Outbox, names: &[String], from: i64, to: i64) {
    for name in names {
        outbox.append(name, from, to).await;
    }
}

fn names(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

/// Relays come and go: each has its share, nothing is sent twice, and each aggregate keeps its order.
#[tokio::test(flavor = "multi_thread")]
async fn relays_that_come_and_go_share_the_work_and_keep_the_order() {
    let outbox = shared("shared").await;
    let all = aggregates(48);
    append(&outbox, &all, 1, 10).await;
    let first = outbox.start().await;
    have(&outbox, &[16]).await;
    let second = outbox.start().await;
    append(&outbox, &all, 11, 20).await;
    have(&outbox, &[8, 8]).await;
    append(&outbox, &all, 21, 30).await;
    let third = outbox.start().await;
    append(&outbox, &all, 31, 40).await;
    have(&outbox, &[6, 5, 5]).await;
    append(&outbox, &all, 41, 50).await;
    outbox.drained(SOON).await;
    for (name, relay) in [("second", &second), ("third", &third)] {
        assert!(relay.counters.read().sent > 0, "the {name} works");
    }
    append(&outbox, &all, 51, 60).await;
    first.stop().await;
    have(&outbox, &[8, 8]).await;
    append(&outbox, &all, 61, 70).await;
    second.stop().await;
    have(&outbox, &[16]).await;
    append(&outbox, &all, 71, 80).await;
    outbox.drained(SOON).await;
    third.stop().await;
    let found = outbox.arrivals().await;
    in_order(&found, &names(&all), 80);
    assert_eq!(copies(&found), 0, "nobody was hurt");
}

/// What a killed or frozen relay leaves behind is somebody's within its lease, and what a frozen one still sends is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_a_relay_that_dies_is_taken_over() {
    let outbox = shared("shared-dead").await;
    let all = aggregates(48);
    let mut first = outbox.spawn(&RELAY);
    let mut second = outbox.spawn(&RELAY);
    let third = outbox.start().await;
    have(&outbox, &[6, 5, 5]).await;
    append(&outbox, &all, 1, 20).await;
    first.kill();
    append(&outbox, &all, 21, 40).await;
    have(&outbox, &[8, 8]).await;
    second.pause();
    append(&outbox, &all, 41, 60).await;
    have(&outbox, &[16]).await;
    outbox.drained(SOON).await;
    second.resume();
    append(&outbox, &all, 61, 80).await;
    have(&outbox, &[8, 8]).await;
    outbox.drained(SOON).await;
    second.kill();
    third.stop().await;
    in_order(&outbox.arrivals().await, &names(&all), 80);
}
