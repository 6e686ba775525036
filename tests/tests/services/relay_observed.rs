//! The relay's port: what a scraper and a probe see of relays that ship, stand by, or have lost their database or
//! Kafka; and what it costs the database.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use outbox_relay::{destination::Outcome, telemetry::METRICS};
use serde_json::Value;
use tests::{
    Outbox, OwnKafka, OwnPostgres, RunningRelay, SOON, Services, StopMode, eventually, parked_row,
    until_some,
};

use super::{
    observed::{asked, promtool},
    relay_destinations::{Scripted, route},
};

/// An outage is told after 10 s, and found out some seconds later.
const TOLD: Duration = Duration::from_secs(60);

/// An outbox whose relays have a port.
fn serving(mut outbox: Outbox) -> Outbox {
    outbox.config.http.listen = "127.0.0.1:0".into();
    outbox
}

async fn get(relay: &RunningRelay, path: &str) -> (u16, String) {
    let readings = relay.readings.as_ref().expect("it has a port");
    let address = until_some(SOON, "the port listens", async || readings.http_address()).await;
    asked(address, path).await
}

/// The samples of a scrape by name and labels, without the label that all have.
async fn scraped(relay: &RunningRelay) -> BTreeMap<String, f64> {
    let (status, text) = get(relay, "/metrics").await;
    assert_eq!(status, 200, "{text}");
    let common = format!("{{outbox=\"{}\"", relay.readings.as_ref().unwrap().outbox());
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let name = name.replacen(&format!("{common},"), "{", 1);
        (name.replacen(&format!("{common}}}"), "", 1), value.parse().unwrap())
    });
    samples.collect()
}

/// Waits until a scrape shows these values.
async fn shows(relay: &RunningRelay, wanted: &[(&str, f64)]) -> BTreeMap<String, f64> {
    until_some(SOON, &format!("a scrape shows {wanted:?}"), async || {
        let seen = scraped(relay).await;
        wanted.iter().all(|(name, value)| seen.get(*name) == Some(value)).then_some(seen)
    })
    .await
}

/// What readiness answers: status and body.
async fn readiness(relay: &RunningRelay) -> (u16, Value) {
    let (status, body) = get(relay, "/health/ready").await;
    (status, serde_json::from_str(&body).unwrap())
}

async fn ready(relay: &RunningRelay, turn: &str) -> Value {
    until_some(TOLD, &format!("ready, turn {turn}"), async || {
        let (status, body) = readiness(relay).await;
        (status == 200 && body["ready"] == true && body["turn"] == turn).then_some(body)
    })
    .await
}

/// Waits until it is not ready for this reason alone; answers the sentence.
async fn unready(relay: &RunningRelay, reason: &str) -> String {
    until_some(TOLD, &format!("not ready: {reason}"), async || {
        let (status, body) = readiness(relay).await;
        let reasons = body["reasons"].as_array().unwrap();
        let named = status == 503 && reasons.len() == 1 && reasons[0]["reason"] == reason;
        named.then(|| reasons[0]["sentence"].as_str().unwrap().to_owned())
    })
    .await
}

#[tokio::test]
async fn a_relay_that_ships_and_one_that_stands_by_are_seen() {
    let outbox = serving(Outbox::set("seen", 1).await);
    outbox.append("warm", 1, 1).await;
    let first = outbox.start().await;
    ready(&first, "own").await;
    outbox.drained(SOON).await;
    let second = outbox.start().await;
    let body = ready(&second, "others").await;
    let sentence = body["sentence"].as_str().unwrap();
    assert!(sentence.contains("is active") && sentence.contains("on standby"), "{sentence}");
    for relay in [&first, &second] {
        shows(relay, &[("outbox_unsent_rows", 0.0), ("outbox_appended_rows_total", 0.0)]).await;
        assert_eq!(get(relay, "/health/live").await.0, 200);
    }

    outbox.append("a", 1, 5).await;
    // A row that was written by hand may have any time: it is sent like the others, and has no age.
    let row = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, created_at, payload)
        VALUES (gen_random_uuid(), 'Counted', 'Account', 'b', 'infinity', '{\"n\":1}')";
    outbox.schema.run(row).await;
    outbox.drained(SOON).await;
    for (state, destination) in
        [("parked", "kafka"), ("waiting", "kafka:no-such"), ("behind", "kafka")]
    {
        outbox.schema.run(&parked_row(state, destination, "x")).await;
    }

    let delivered = "outbox_delivered_rows_total{destination=\"kafka\"}";
    let of_outbox = [
        ("outbox_unsent_rows", 1.0),
        ("outbox_oldest_retry_seconds", 0.0),
        ("outbox_set_aside_rows", 1.0),
        ("outbox_without_topic_rows", 1.0),
        ("outbox_held_rows", 1.0),
        ("outbox_appended_rows_total", 9.0),
        ("outbox_ready", 1.0),
    ];
    let active = [("outbox_turn_held", 1.0), ("outbox_turns_total", 1.0), (delivered, 7.0)];
    let seen = shows(&first, &[&of_outbox[..], &active].concat()).await;
    assert!(seen["outbox_table_bytes"] >= 8_192.0 && seen["outbox_index_bytes"] >= 8_192.0);
    let lease = outbox.config.relay.lease.as_secs_f64();
    let left = seen["outbox_lease_left_seconds"];
    assert!(left > 0.0 && left <= lease, "{left}");
    let batches = seen["outbox_batches_total"];
    assert_eq!(seen["outbox_batch_rows_sum"], 7.0);
    assert_eq!(seen["outbox_batch_rows_count"], batches);
    assert!(seen["outbox_delivery_seconds_count{destination=\"kafka\"}"] >= batches);
    let aged = seen["outbox_delay_seconds_count{destination=\"kafka\"}"];
    assert!(aged >= 1.0 && aged <= batches, "{aged} of {batches}");
    let standby = [("outbox_turn_held", 0.0), ("outbox_turns_total", 0.0), (delivered, 0.0)];
    shows(&second, &[&of_outbox[..], &standby].concat()).await;

    let (_, text) = get(&first, "/metrics").await;
    let told: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert_eq!(told, METRICS.iter().map(|metric| metric.name).collect());
    promtool(&text);

    first.stop().await;
    ready(&second, "own").await;
    shows(&second, &[("outbox_turn_held", 1.0)]).await;
    second.stop().await;
}

/// Rows in retry and overdue reminders count as unsent, and the age of the oldest is theirs: what plain SQL shows.
#[tokio::test]
async fn rows_in_retry_and_overdue_ones_are_unsent() {
    let mut outbox = serving(Outbox::set("overdue", 1).await);
    outbox.config.routes = vec![route("*", "shop")];
    outbox.append("failing", 1, 2).await;
    outbox.append("overdue", 1, 1).await;
    outbox.append("delayed", 1, 1).await;
    for (aggregate, column, time) in [
        ("failing", "created_at", "now() - interval '10 minutes'"),
        ("overdue", "created_at", "now() - interval '30 days'"),
        ("overdue", "deliver_after", "now() - interval '20 minutes'"),
        ("delayed", "deliver_after", "now() + interval '1 day'"),
    ] {
        let of = format!("WHERE aggregate_id = '{aggregate}'");
        outbox.schema.run(&format!("UPDATE outbox_events SET {column} = {time} {of}")).await;
    }
    // Another aggregate is delivered, so that the failures are the events' own.
    outbox.append("good", 1, 1).await;
    let shop = Scripted::new(|aggregate, _, _| match aggregate {
        "good" => Outcome::Delivered,
        _ => Outcome::retry("answered 500"),
    });
    let relay = outbox.start_with(|it| it.destination("shop", shop)).await;
    let of_sql = "SELECT count(*) FROM outbox_events LEFT JOIN outbox_parked USING (seq)
        WHERE sent_at IS NULL AND discarded_at IS NULL AND state IS DISTINCT FROM 'behind'
        AND coalesce(deliver_after <= now(), true)";
    let seen = shows(
        &relay,
        &[("outbox_unsent_rows", 2.0), ("outbox_retrying_rows", 2.0), ("outbox_delayed_rows", 1.0)],
    )
    .await;
    assert_eq!(outbox.schema.number(of_sql).await, 2);
    let minutes = |name: &str| (seen[name] / 60.0).floor();
    assert_eq!(minutes("outbox_oldest_unsent_seconds"), 20.0, "since it was due");
    assert_eq!(minutes("outbox_oldest_retry_seconds"), 20.0);
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_told_and_the_port_answers_at_once() {
    let own = OwnPostgres::start().await;
    let topic = Services::from_env().topic("seen", 1).await;
    let outbox = serving(Outbox::with(topic, own.schema().await).await);
    let relay = outbox.start().await;
    ready(&relay, "own").await;
    shows(&relay, &[("outbox_unsent_rows", 0.0)]).await;

    tokio::task::block_in_place(|| own.stop(StopMode::Immediate));
    let (mut sentence, began) = (String::new(), Instant::now());
    while sentence.is_empty() {
        let asked = Instant::now();
        let (live, _) = get(&relay, "/health/live").await;
        let (status, body) = readiness(&relay).await;
        scraped(&relay).await;
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        assert_eq!(live, 200, "an outage is no reason to start anew");
        if status == 503 {
            assert_eq!(body["reasons"][0]["reason"], "database_outage", "{body}");
            sentence = body["reasons"][0]["sentence"].as_str().unwrap().to_owned();
        }
        assert!(began.elapsed() < TOLD, "{body}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(began.elapsed() > Duration::from_secs(9), "a moment is none: {:?}", began.elapsed());
    assert!(sentence.starts_with("the database has been down for 1"), "{sentence}");
    let seen = scraped(&relay).await;
    assert!(seen["outbox_outage_seconds{of=\"database\"}"] > 10.0, "{seen:#?}");
    assert!(seen["outbox_errors_total{kind=\"database_outage\"}"] > 0.0);
    assert_eq!(
        (seen["outbox_ready"], seen["outbox_turn_held"]),
        (0.0, 0.0),
        "its lease has \
                                                                              expired"
    );
    // The relay's last reading counts until it is too old or another one has failed.
    eventually(SOON, "old readings are not shown", async || {
        let seen = scraped(&relay).await;
        let absent = |name: &&str| !seen.contains_key(*name);
        ["outbox_unsent_rows", "outbox_reading_age_seconds"].iter().all(absent)
    })
    .await;

    tokio::task::block_in_place(|| own.start_again());
    ready(&relay, "own").await;
    outbox.append("a", 1, 3).await;
    outbox.drained(SOON).await;
    shows(&relay, &[("outbox_unsent_rows", 0.0), ("outbox_outage_seconds{of=\"database\"}", 0.0)])
        .await;
    relay.stop().await;
}

/// No row goes, so that nothing but the client and a question shows how Kafka is.
#[tokio::test(flavor = "multi_thread")]
async fn a_kafka_that_is_away_is_told_by_a_relay_without_rows() {
    let mut kafka = OwnKafka::start().await;
    let topic = kafka.topic("seen", 1).await;
    let outbox = serving(Outbox::with(topic, Services::from_env().schema().await).await);
    let relay = outbox.start().await;
    ready(&relay, "own").await;
    kafka.kill();
    let sentence = unready(&relay, "kafka_outage").await;
    assert!(sentence.starts_with("Kafka has been down for 1"), "{sentence}");
    assert!(scraped(&relay).await["outbox_outage_seconds{of=\"kafka\"}"] > 10.0);
    assert_eq!(get(&relay, "/health/live").await.0, 200);
    kafka.start_again().await;
    ready(&relay, "own").await;
    relay.stop().await;
}

/// What a look costs does not grow with what waits, whatever the server has learnt of the table: by its own counts, each
/// reads the bound and no more of the index of what waits, and nothing of the table in its order.
#[tokio::test]
async fn a_look_for_metrics_reads_no_more_than_its_bounds() {
    let outbox = serving(Outbox::set("bounds", 1).await);
    // Another has the turn, so that nothing but looks for metrics reads rows.
    outbox
        .schema
        .run("UPDATE outbox_relays SET owner = 'x', lease_until = now() + interval '9 minutes', lease_ms = 600000")
        .await;
    for table in ["outbox_events", "outbox_parked"] {
        outbox.schema.run(&format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")).await;
    }
    let fill = |more: &str, values: &str| {
        format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id{more})
             SELECT gen_random_uuid(), 'T', 'A', n::text{values} FROM generate_series(1, 60000) n"
        )
    };
    outbox.schema.run(&fill(", sent_at", ", now()")).await;
    outbox.schema.run(&fill("", "")).await;
    // By one statement: a read of the table to park them could be counted as one of the relay's, for counts come late.
    let parked = format!(
        "WITH parked AS ({} RETURNING seq, aggregate_type, aggregate_id)
         INSERT INTO outbox_parked (seq, aggregate_type, aggregate_id, state, destination, error)
         SELECT seq, aggregate_type, aggregate_id, 'parked', 'kafka', 'x' FROM parked",
        fill(", parked_at", ", now()")
    );
    outbox.schema.run(&parked).await;
    for learnt in [false, true] {
        if learnt {
            outbox.schema.run("VACUUM ANALYZE outbox_events").await;
            outbox.schema.run("VACUUM ANALYZE outbox_parked").await;
        }
        let before = read_so_far(&outbox).await;
        let relay = outbox.start().await;
        let seen = until_some(SOON, "a look", async || {
            let seen = scraped(&relay).await;
            seen.contains_key("outbox_unsent_rows").then_some(seen)
        })
        .await;
        assert_eq!(
            (seen["outbox_unsent_rows"], seen["outbox_set_aside_rows"]),
            (20_000.0, 1_000.0)
        );
        assert_eq!(seen["outbox_unsent_span_rows"], 120_000.0);
        let looks = seen["outbox_readings_total{result=\"ok\"}"];
        assert_eq!(looks, 1.0, "the next is five seconds away");
        relay.stop().await; // its session tells its counts when it ends
        eventually(SOON, "the counts arrive", async || {
            read_so_far(&outbox).await["outbox_events_unsent"] > before["outbox_events_unsent"]
        })
        .await;
        let after = read_so_far(&outbox).await;
        let read = |name: &str| after[name] - before[name];
        // A second look may have begun meanwhile.
        for (index, most) in [
            ("outbox_events_unsent", 20_001),
            // The age of each parked row of three states.
            ("outbox_events_pkey", 3_001),
            ("outbox_events", 0),
            // Each state has a bound of its own, and they are counted together.
            ("all of outbox_parked", 5_000),
        ] {
            assert!(read(index) <= 2 * most, "{index}: {} (learnt: {learnt})", read(index));
        }
    }
}

/// Entries that were read of each index of `outbox_events` and rows of the table in its order, and both of `outbox_parked`
/// together, by the server's counts.
async fn read_so_far(outbox: &Outbox) -> BTreeMap<String, i64> {
    let counts = format!(
        "WITH found AS (
            SELECT relname::text AS \"table\", indexrelname::text AS name, idx_tup_read AS rows FROM pg_stat_user_indexes
            WHERE schemaname = '{schema}'
            UNION ALL SELECT relname::text, relname::text, seq_tup_read FROM pg_stat_user_tables
            WHERE schemaname = '{schema}')
         SELECT name, rows FROM found WHERE \"table\" = 'outbox_events'
         UNION ALL SELECT 'all of outbox_parked', sum(rows)::bigint FROM found WHERE \"table\" = 'outbox_parked'",
        schema = outbox.schema.name()
    );
    let counts: Vec<(String, i64)> =
        sqlx::query_as(sqlx::AssertSqlSafe(counts)).fetch_all(outbox.schema.pool()).await.unwrap();
    counts.into_iter().collect()
}
