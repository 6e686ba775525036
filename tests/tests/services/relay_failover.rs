//! The relay: databases that go back to an older state, by a failover or a restore, and clocks that do.

use std::time::Duration;

use outbox_core::OutboxEvent;
use outbox_relay::{Ended, Relay, config::Config};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tests::{
    Failover, Outbox, OwnPostgres, RunningRelay, SOON, Services, arrivals, counted_event,
    eventually, firsts, in_rounds,
};

fn events(aggregate: &str, from: i64, to: i64) -> Vec<OutboxEvent> {
    (from..=to).map(|n| counted_event(aggregate, n)).collect()
}

fn numbers(from: i64, to: i64) -> Vec<i64> {
    (from..=to).collect()
}

/// Rows are sent, and before they are marked a replica without them is promoted. New rows get their numbers:
/// they are other rows, and are sent.
#[tokio::test(flavor = "multi_thread")]
async fn new_rows_under_the_numbers_of_lost_ones_are_sent() {
    in_rounds(new_rows_after_a_failover).await;
}

async fn new_rows_after_a_failover() {
    let mut failover = Failover::start().await;
    let topic = Services::from_env().topic("relay-failover", 1).await;
    let mut outbox = Outbox::with(topic, failover.schema().await).await;
    outbox.config.database.url = failover.url(&outbox.schema).into();
    // The turn stays the same one over the failover.
    outbox.config.relay.lease = Duration::from_mins(1);
    let relay = outbox.start().await;
    outbox.append("warm", 1, 1).await;
    outbox.drained(SOON).await;
    failover.lag().await;

    // The mark waits for this lock; looking does not.
    let mut other = PgConnection::connect(&outbox.schema.url()).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    sqlx::query("SELECT FROM outbox_relays FOR UPDATE").execute(&mut *lock).await.unwrap();
    outbox.append_all(&events("lost", 1, 60)).await;
    outbox.arrived(61).await;
    let mut new = failover.promote(&outbox.schema).await;
    outbox_core::append_all(&mut new, &events("new", 1, 60)).await.unwrap();
    failover.lead_over();

    let sent = "SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL";
    eventually(SOON * 2, "all rows are marked", async || {
        let sent: i64 = sqlx::query_scalar(sent).fetch_one(&mut new).await.unwrap();
        sent == 61
    })
    .await;
    assert_eq!(firsts(&outbox.arrivals().await)["new"], numbers(1, 60));
    assert!(relay.counters.read().turns > 1, "the turn was given up and taken anew");
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// Looks begin above numbers that are done with. A replica without the last of them gives these numbers once more, to
/// rows that are sent before those above.
#[tokio::test(flavor = "multi_thread")]
async fn looks_begin_anew_at_a_promoted_replica() {
    let mut failover = Failover::start().await;
    let topic = Services::from_env().topic("relay-floor", 1).await;
    let mut outbox = Outbox::with(topic, failover.schema().await).await;
    outbox.config.database.url = failover.url(&outbox.schema).into();
    outbox.config.relay.lease = Duration::from_mins(1);
    // Only slow looks begin higher.
    failover.delay(Duration::from_millis(10));
    let relay = outbox.start().await;
    outbox.append("warm", 1, 1).await;
    outbox.drained(SOON).await;
    failover.lag().await;
    for n in 1..=60 {
        outbox.append("lost", n, n).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    outbox.drained(SOON).await;
    let mut new = failover.promote(&outbox.schema).await;
    outbox_core::append_all(&mut new, &events("new", 1, 120)).await.unwrap();
    failover.lead_over();
    eventually(SOON * 2, "all rows are sent", async || {
        let found = firsts(&outbox.arrivals().await);
        found.get("new").is_some_and(|found| found.len() == 120)
    })
    .await;
    assert_eq!(firsts(&outbox.arrivals().await)["new"], numbers(1, 120));
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// A file of SQLite that another one replaces, as a restore by hand does, while a relay has it open.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_under_a_relay_is_noticed() {
    let services = Services::from_env();
    let topic = services.topic("relay-replaced", 1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let mut config = Config::new(&services.kafka, url.clone());
    topic.name().clone_into(&mut config.kafka.topic);
    config.wake.poll_interval = Duration::from_millis(50);
    outbox_relay::migrate(&config).await.unwrap();
    let relay = RunningRelay::start(config).await;
    let mut app = SqliteConnection::connect(&url).await.unwrap();
    outbox_core::append_all(&mut app, &events("before", 1, 3)).await.unwrap();
    let found = async || arrivals(&services.kafka, topic.name(), 1).await;
    eventually(SOON, "the first are sent", async || found().await.len() >= 3).await;

    let copy = folder.path().join("backup.db");
    let backup = format!("VACUUM INTO '{}'", copy.display());
    sqlx::raw_sql(AssertSqlSafe(backup)).execute(&mut app).await.unwrap();
    app.close().await.unwrap();
    std::fs::rename(&copy, &file).unwrap();
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
    let mut app = SqliteConnection::connect(&url).await.unwrap();
    outbox_core::append_all(&mut app, &events("after", 1, 3)).await.unwrap();
    eventually(SOON, "what is appended to it is sent", async || {
        firsts(&found().await).get("after") == Some(&numbers(1, 3))
    })
    .await;
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// The same in SQLite, by a restore between the acknowledgement and the mark.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_file_loses_no_new_row() {
    in_rounds(new_rows_after_a_restore).await;
}

async fn new_rows_after_a_restore() {
    let services = Services::from_env();
    let topic = services.topic("relay-restore", 1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let mut config = Config::new(&services.kafka, format!("sqlite:{}", file.display()));
    topic.name().clone_into(&mut config.kafka.topic);
    config.relay.lease = Duration::from_mins(1);
    config.wake.poll_interval = Duration::from_millis(50);
    outbox_relay::migrate(&config).await.unwrap();
    let url = format!("sqlite:{}", file.display());
    let mut app = SqliteConnection::connect(&url).await.unwrap();
    let relay = RunningRelay::start(config).await;
    outbox_core::append_all(&mut app, &events("warm", 1, 1)).await.unwrap();
    let unsent = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL";
    let mut waiting = SqliteConnection::connect(&url).await.unwrap();
    let mut drained = async || -> bool {
        let rows: i64 = sqlx::query_scalar(unsent).fetch_one(&mut waiting).await.unwrap();
        rows == 0
    };
    eventually(SOON, "the first is sent", async || drained().await).await;
    let copy = folder.path().join("backup.db");
    let backup = format!("VACUUM INTO '{0}'; ATTACH '{0}' AS old", copy.display());
    sqlx::raw_sql(AssertSqlSafe(backup)).execute(&mut app).await.unwrap();

    let found = async || arrivals(&services.kafka, topic.name(), 1).await;
    outbox_core::append_all(&mut app, &events("lost", 1, 60)).await.unwrap();
    // One writer at a time: the mark waits for this transaction.
    let mut restore = app.begin_with("BEGIN IMMEDIATE").await.unwrap();
    eventually(SOON, "the rows are sent", async || found().await.len() >= 61).await;
    let back = "DELETE FROM main.outbox_events; INSERT INTO main.outbox_events SELECT * FROM old.outbox_events;
        DELETE FROM main.outbox_parked; INSERT INTO main.outbox_parked SELECT * FROM old.outbox_parked;
        UPDATE main.sqlite_sequence SET seq = (SELECT seq FROM old.sqlite_sequence WHERE name = 'outbox_events')
            WHERE name = 'outbox_events'";
    sqlx::raw_sql(back).execute(&mut *restore).await.unwrap();
    outbox_core::append_all(&mut *restore, &events("new", 1, 60)).await.unwrap();
    restore.commit().await.unwrap();
    eventually(SOON, "all rows are marked", async || drained().await).await;
    assert_eq!(firsts(&found().await)["new"], numbers(1, 60));
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// A turn's number is given twice where the database went back: what makes it one's own is its token, with
/// fencing and without.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_the_same_number_is_another_turn() {
    for fencing in [true, false] {
        another_turn_of_the_same_number(fencing).await;
    }
}

async fn another_turn_of_the_same_number(fencing: bool) {
    let mut outbox = Outbox::set("same-number", 1).await;
    outbox.config.kafka.fencing = fencing;
    let relay = outbox.start().await;
    outbox.append("a", 1, 3).await;
    outbox.drained(SOON).await;
    // What another relay leaves that has taken the same number on an older state.
    let other =
        "UPDATE outbox_relays SET owner = 'other', token = gen_random_uuid(), lease_ms = 3000,
        lease_until = now() + interval '3 seconds'";
    outbox.schema.run(other).await;
    outbox.append("a", 4, 6).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(outbox.waiting().await, 3, "the turn is another's");
    outbox.drained(SOON).await;
    assert_eq!(relay.counters.read().turns, 2);
    assert_eq!(relay.stop().await, Ended::Shutdown);
    assert_eq!(firsts(&outbox.arrivals().await)["a"], numbers(1, 6));
}

/// The database's clock was set back: the lease of a relay that has died ends in an hour. Without a sign of
/// life it is over when it has lasted as long as it can.
#[tokio::test]
async fn a_lease_that_cannot_be_is_taken() {
    let outbox = Outbox::set("future-lease", 1).await;
    let future = "UPDATE outbox_relays SET epoch = 7, owner = 'dead', token = gen_random_uuid(), token_epoch = 7,
        lease_ms = 2000, lease_until = now() + interval '1 hour'";
    outbox.schema.run(future).await;
    outbox.append("a", 1, 3).await;
    let relay = outbox.start().await;
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert_eq!(relay.counters.read().turns, 0, "it may be alive");
    outbox.drained(Duration::from_secs(15)).await;
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// The same while the relay that has the turn is alive: it is not taken from it.
#[tokio::test]
async fn a_lease_with_signs_of_life_is_left_alone() {
    let outbox = Outbox::set("alive-lease", 1).await;
    let future = "UPDATE outbox_relays SET epoch = 7, owner = 'alive', token = gen_random_uuid(), token_epoch = 7,
        lease_ms = 2000, lease_until = now() + interval '1 hour'";
    outbox.schema.run(future).await;
    outbox.append("a", 1, 3).await;
    let relay = outbox.start().await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(600)).await;
        outbox
            .schema
            .run("UPDATE outbox_relays SET lease_until = lease_until + interval '1 second'")
            .await;
    }
    assert_eq!(relay.counters.read().turns, 0);
    assert_eq!(outbox.waiting().await, 3);
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// A look that always fails: the standstill has its reason in the database, for `status`.
#[tokio::test]
async fn a_look_that_always_fails_is_named() {
    let outbox = Outbox::set("blind", 1).await;
    let relay = outbox.start().await;
    outbox.append("a", 1, 1).await;
    outbox.drained(SOON).await;
    outbox.schema.run("ALTER TABLE outbox_events RENAME COLUMN headers TO other").await;
    let named = "SELECT count(*) FROM outbox_relays WHERE standstill LIKE '%headers%'";
    eventually(SOON, "it is named", async || outbox.schema.number(named).await == 1).await;
    outbox.schema.run("ALTER TABLE outbox_events RENAME COLUMN other TO headers").await;
    let over = "SELECT count(*) FROM outbox_relays WHERE relay_ref = 1 AND standstill IS NULL";
    outbox.append("a", 2, 2).await;
    outbox.drained(SOON).await;
    eventually(SOON, "it is over", async || outbox.schema.number(over).await == 1).await;
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// Behind a pooler no search path belongs to the session: `database.schema` holds there, too, and an outbox of
/// another schema is never taken for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_outbox_of_another_schema_is_left_alone() {
    let services = Services::from_env();
    let server = OwnPostgres::start().await;
    let topic = services.topic("schemas", 1).await;
    let url = server.url();
    let mut theirs = PgConnection::connect(&url).await.unwrap();
    outbox_core::migrate(&mut theirs).await.unwrap();
    outbox_core::append_all(&mut theirs, &events("theirs", 1, 3)).await.unwrap();
    for statement_cache in [0, 100] {
        let mut config = Config::new(&services.kafka, url.clone());
        topic.name().clone_into(&mut config.kafka.topic);
        config.database.schema = Some(format!("shop{statement_cache}"));
        config.database.statement_cache = statement_cache;
        config.wake.notify = statement_cache > 0;
        config.wake.poll_interval = Duration::from_millis(100);
        let Err(error) = outbox_relay::migrate(&config).await else { panic!("there is no schema") };
        assert!(error.to_string().contains("CREATE SCHEMA shop"), "{error}");
        let schema = format!("CREATE SCHEMA shop{statement_cache}");
        sqlx::raw_sql(AssertSqlSafe(schema)).execute(&mut theirs).await.unwrap();
        let Err(error) = Relay::builder(config.clone()).build().await else {
            panic!("it has no outbox")
        };
        assert!(error.to_string().contains("has no outbox tables"), "{error}");
        outbox_relay::migrate(&config).await.unwrap();
        let mut ours = PgConnection::connect(&url).await.unwrap();
        let path = format!("SET search_path = shop{statement_cache}");
        sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut ours).await.unwrap();
        outbox_core::append_all(&mut ours, &events("ours", 1, 3)).await.unwrap();
        let relay = RunningRelay::start(config).await;
        let unsent = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL";
        eventually(SOON, "ours are sent", async || {
            let rows: i64 = sqlx::query_scalar(unsent).fetch_one(&mut ours).await.unwrap();
            rows == 0
        })
        .await;
        // The table goes under the running relay; the other outbox stays another's.
        sqlx::raw_sql("DROP TABLE outbox_events").execute(&mut ours).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let rows: i64 = sqlx::query_scalar(unsent).fetch_one(&mut theirs).await.unwrap();
        assert_eq!(rows, 3, "another's rows were sent and marked");
        assert_eq!(relay.stop().await, Ended::Shutdown);
    }
    let found = arrivals(&services.kafka, topic.name(), 1).await;
    assert!(firsts(&found).keys().all(|aggregate| aggregate == "ours"), "{found:?}");
}
