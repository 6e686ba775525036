//! Connections that fall silent without being closed: a network that has parted, a firewall that forgot.

use std::time::Duration;

use inbox_consumer::{Ended, Routes};
use tests::{Counter, Proxy, Running, Services, Stage, eventually};

/// Everything has to be there again within this.
const MEND: Duration = Duration::from_mins(1);

/// A stage whose database is reached through a proxy, with limits that are short enough to wait for.
async fn behind_a_proxy(stem: &str) -> (Stage, Proxy) {
    let services = Services::from_env();
    let mut stage = Stage::set(stem, 2).await;
    let server = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(server).await;
    stage.config.database.url = stage.schema.url_at(&proxy.url(&services.postgres)).into();
    stage.config.database.statement_timeout = Duration::from_secs(3);
    stage.config.database.lock_timeout = Duration::from_secs(1);
    stage.config.retry.attempt_deadline = Duration::from_secs(8);
    // What the server still holds for a client that it does not hear of any more.
    stage.config.database.idle_timeout = Duration::from_secs(9);
    stage.config.retry.attempts_max = 1;
    (stage, proxy)
}

const AGGREGATES: [&str; 4] = ["a", "b", "c", "d"];

async fn send(stage: &Stage, from: i64, to: i64) {
    for aggregate in AGGREGATES {
        stage.count(aggregate, from, to).await;
    }
}

/// All events have their effect, each once and in order, the watermark is confirmed by both sides, and
/// nobody was blamed.
async fn all_is_well(place: &str, stage: &Stage, running: &Running, each: i64) {
    let all = each * 4;
    eventually(MEND, &format!("{place}: all events"), async || stage.effects().await >= all).await;
    let group = stage.config.group().to_owned();
    eventually(MEND, &format!("{place}: the watermark"), async || {
        let confirmed = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
        let committed = stage.topic.committed(&group).await;
        let committed: i64 = committed.into_iter().map(Option::unwrap_or_default).sum();
        (stage.schema.number(confirmed).await, committed) == (all, all)
    })
    .await;
    for aggregate in AGGREGATES {
        assert_eq!(stage.of(aggregate).await, (1..=each).collect::<Vec<_>>(), "{place}");
    }
    let counts = running.counters.read();
    assert_eq!((counts.failures, stage.parked("").await), (0, 0), "{place}: {counts:?}");
}

/// The network loses everything for 8 s under load; then it works, but not for the connections of before.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_parts_for_a_while_delays_and_nothing_else() {
    let (stage, proxy) = behind_a_proxy("parted").await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    send(&stage, 1, 10).await;
    eventually(MEND, "it has begun", async || stage.effects().await == 40).await;
    send(&stage, 11, 40).await;
    proxy.lose_everything();
    send(&stage, 41, 70).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    proxy.silence();
    proxy.heal();
    all_is_well("parted", &stage, &running, 70).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A connection that falls silent at one place of a consumer's work, whichever it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_falls_silent_anywhere_is_given_up() {
    let places: [(&str, &[u8]); 8] = [
        ("opening", b"SELECT pg_is_in_recovery"),
        ("the take-over", b"UPDATE inbox_lanes l SET epoch"),
        ("the watermark", b"UPDATE inbox_partitions w SET slot"),
        ("BEGIN", b"BEGIN ISOLATION LEVEL"),
        ("the claim", b"pg_current_xact_id()::text AS tx"),
        ("a handler's statement", b"INSERT INTO effects"),
        ("the advance", b"UPDATE inbox_lanes l SET last_offset"),
        ("COMMIT", b"COMMIT\0"),
    ];
    let tests = places.map(async |(place, bytes)| {
        let (stage, proxy) = behind_a_proxy("silent").await;
        send(&stage, 1, 10).await;
        let running = stage.start(Routes::default().on("Counted", Counter)).await;
        let trap = proxy.silence_at(bytes, 1);
        send(&stage, 11, 30).await;
        eventually(MEND, &format!("{place}: it fell silent"), async || trap.hits() == 1).await;
        all_is_well(place, &stage, &running, 30).await;
        assert_eq!(running.stop().await, Ended::Shutdown);
    });
    futures::future::join_all(tests).await;
}
