//! Misbehaving handlers, case by case: what one does, what becomes of its event, and what later events see of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use inbox_consumer::Ended;
use serde_json::json;
use tests::{Running, SOON, Stage, eventually};

use super::acting::{acting, told};

/// What becomes of the event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Its effect is there.
    Done,
    /// It is parked for this reason, and its error has these words.
    Parked(&'static str, &'static str),
}
use Fate::{Done, Parked};

/// A handler's SQL, beside its effect.
struct Case {
    sql: &'static str,
    unguarded: bool,
    fate: Fate,
    /// What a later event looks at, and what it has to see.
    later: (&'static str, &'static str),
}

const fn guarded(sql: &'static str, fate: Fate, later: (&'static str, &'static str)) -> Case {
    Case { sql, unguarded: false, fate, later }
}

const fn past(sql: &'static str, fate: Fate, later: (&'static str, &'static str)) -> Case {
    Case { sql, unguarded: true, fate, later }
}

pub const fn refused(words: &'static str) -> Fate {
    Parked("exhausted", words)
}

const NOTHING: (&str, &str) = ("SELECT 1", "1");
const ZONE: (&str, &str) = ("SELECT current_setting('TimeZone')", "UTC");
const MEMORY: (&str, &str) =
    ("SELECT setting = reset_val FROM pg_settings WHERE name = 'work_mem'", "true");
const KEYS: (&str, &str) = ("SELECT current_setting('session_replication_role')", "origin");
const ROWS: (&str, &str) = ("SELECT current_setting('row_security')", "on");
const LOCKS: (&str, &str) =
    ("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", "0");
const CURSORS: (&str, &str) = ("SELECT count(*) FROM pg_cursors WHERE is_holdable", "0");
const PREPARED: (&str, &str) = ("SELECT count(*) FROM pg_prepared_statements WHERE from_sql", "0");
const CHANNELS: (&str, &str) = ("SELECT count(*) FROM pg_listening_channels()", "0");
const TEMPORARY: (&str, &str) = ("SELECT to_regclass('pg_temp.mine') IS NULL", "true");
const ROLE: (&str, &str) = ("SELECT current_user = session_user", "true");
const CLAIMED: (&str, &str) = (
    "SELECT count(*) FROM effects WHERE aggregate NOT LIKE 'later%' AND aggregate NOT LIKE 'kept%' AND \
     NOT EXISTS (SELECT FROM inbox_events e WHERE e.event_id::text = effects.event_id)",
    "0",
);

/// The events are handled one after the other, on one connection as long as it lasts.
async fn stage() -> Stage {
    let mut stage = Stage::set("misbehaving", 1).await;
    stage.config.lanes.count = 1;
    stage.config.retry.attempts_max = 2;
    stage.schema.run(TABLES).await;
    stage
}

const TABLES: &str = "CREATE TABLE seen (at bigint, what text, pid integer DEFAULT pg_backend_pid()); \
    CREATE TABLE inbox_notes (note text); \
    CREATE FUNCTION unclaim() RETURNS void LANGUAGE sql AS 'DELETE FROM inbox_events'; \
    CREATE FUNCTION claim_another() RETURNS void LANGUAGE sql AS $$ INSERT INTO inbox_events (consumer_ref, \
        event_id, fingerprint, partition_ref, \"offset\") SELECT consumer_ref, gen_random_uuid(), fingerprint, \
        partition_ref, \"offset\" FROM inbox_events LIMIT 1 $$; \
    CREATE FUNCTION rename_claims() RETURNS void LANGUAGE sql AS \
        'UPDATE inbox_events SET event_id = gen_random_uuid()'; \
    CREATE TABLE watched (n bigint); \
    CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS \
        'BEGIN DELETE FROM inbox_events; RETURN NULL; END'; \
    CREATE TRIGGER undo AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION undo()";

pub async fn parked_as(stage: &Stage, aggregate: &str) -> Option<(String, String)> {
    sqlx::query_as(
        "SELECT reason, record::jsonb ->> 'error' FROM inbox_parked WHERE aggregate LIKE '%' || $1",
    )
    .bind(format!("/{aggregate}"))
    .fetch_optional(stage.schema.pool())
    .await
    .expect("reading what is parked")
}

async fn check(stage: &Stage, at: usize, case: &Case) {
    let Case { sql, unguarded, fate, later: (look, expected) } = case;
    let bad = format!("bad-{at}");
    stage.send(&[told(&bad, 1, json!({"sql": sql, "unguarded": unguarded}))]).await;
    eventually(SOON, sql, async || {
        stage.of(&bad).await == [1] || parked_as(stage, &bad).await.is_some()
    })
    .await;
    match (fate, parked_as(stage, &bad).await) {
        (Done, None) => {}
        (Parked(reason, words), Some((found, error))) => {
            assert_eq!(found, *reason, "{sql}: {error}");
            assert!(error.contains(words), "{sql}: {words:?} is missing: {error}");
            assert!(stage.of(&bad).await.is_empty(), "{sql}");
        }
        (expected, found) => panic!("{sql}: {found:?} instead of {expected:?}"),
    }
    let look = format!("INSERT INTO seen SELECT {at}, ({look})::text");
    stage.send(&[told(&format!("later-{at}"), 1, json!({"sql": look}))]).await;
    let text = format!(
        "SELECT coalesce((SELECT what = '{expected}' FROM seen WHERE at = {at}), false)::int::bigint"
    );
    eventually(SOON, sql, async || stage.of(&format!("later-{at}")).await == [1]).await;
    assert_eq!(stage.schema.number(&text).await, 1, "a later event sees what is left of {sql}");
}

async fn check_all(cases: &[Case]) -> (Stage, Running) {
    let stage = stage().await;
    let running = stage.start(acting()).await;
    for (at, case) in cases.iter().enumerate() {
        check(&stage, at, case).await;
    }
    (stage, running)
}

/// What would stay on the connection is refused, by a sentence that says what to do instead.
#[tokio::test]
async fn what_would_stay_on_the_connection_is_refused() {
    const LOCAL: Fate = refused("use SET LOCAL");
    let cases = [
        guarded("SET timezone = 'Asia/Tokyo'", LOCAL, ZONE),
        guarded("SET TIME ZONE 'Asia/Tokyo'", LOCAL, ZONE),
        guarded("SELECT 1; SET SESSION work_mem = '77MB'", LOCAL, MEMORY),
        guarded("RESET timezone", LOCAL, ZONE),
        guarded("SET session_replication_role = replica", refused("a handler may not run"), KEYS),
        guarded(
            "SET LOCAL session_replication_role = replica",
            refused("contains its other events"),
            KEYS,
        ),
        guarded("SET row_security = off", refused("a handler may not run"), ROWS),
        guarded("LISTEN news", refused("connection of your own"), CHANNELS),
        guarded("UNLISTEN *", refused("connection of your own"), CHANNELS),
        guarded("PREPARE mine AS SELECT 1", refused("prepared automatically"), PREPARED),
        guarded("DEALLOCATE ALL", refused("prepared automatically"), PREPARED),
        guarded("DISCARD ALL", refused("may not run DISCARD"), NOTHING),
        guarded(
            "DECLARE mine CURSOR WITH HOLD FOR SELECT 1",
            refused("without WITH HOLD"),
            CURSORS,
        ),
        // What ends with the transaction is the handler's own affair.
        guarded("SET LOCAL timezone = 'Asia/Tokyo'", Done, ZONE),
        guarded("SELECT set_config('timezone', 'Asia/Tokyo', true)", Done, ZONE),
        guarded("DECLARE mine CURSOR FOR SELECT 1", Done, CURSORS),
        guarded("SET CONSTRAINTS ALL DEFERRED", Done, NOTHING),
        guarded("SELECT pg_advisory_xact_lock(7)", Done, LOCKS),
        guarded("CREATE TEMP TABLE mine (n bigint) ON COMMIT DROP", Done, TEMPORARY),
    ];
    let (_stage, running) = check_all(&cases).await;
    assert_eq!(running.counters.read().outages, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// What was done nevertheless is taken back before the connection is used again. The connection stays, and with
/// it what the runtime has set and prepared.
#[tokio::test]
async fn what_stays_nevertheless_is_taken_back() {
    let own = "current_setting('default_transaction_read_only') || current_setting('search_path') || \
        current_setting('tcp_keepalives_count') || current_setting('application_name') || \
        current_setting('client_connection_check_interval')";
    let cases = [
        guarded("SELECT set_config('timezone', 'Asia/Tokyo', false)", Done, ZONE),
        guarded("SELECT set_config('session_replication_role', 'replica', 1 > 2)", Done, KEYS),
        guarded("SELECT pg_advisory_lock(7), PG_Try_Advisory_Lock_Shared(8)", Done, LOCKS),
        guarded("DO $$ BEGIN SET work_mem = '77MB'; END $$", Done, MEMORY),
        guarded("CREATE TEMPORARY TABLE mine (n bigserial)", Done, TEMPORARY),
        guarded("CREATE TABLE pg_temp.mine (n bigint)", Done, TEMPORARY),
        past("SET timezone = 'Asia/Tokyo'", Done, ZONE),
        past("SET session_replication_role = replica", Done, KEYS),
        past("SET row_security = off", Done, ROWS),
        past("LISTEN news", Done, CHANNELS),
        past("PREPARE mine AS SELECT 1", Done, PREPARED),
        past("DECLARE mine CURSOR WITH HOLD FOR SELECT 1", Done, CURSORS),
        past("SELECT pg_advisory_lock(7)", Done, LOCKS),
        past("SET ROLE pg_monitor; RESET ROLE; SET work_mem = '77MB'", Done, MEMORY),
        past("SET client_connection_check_interval = 0; SET tcp_keepalives_count = 9", Done, ROLE),
        past(
            "SELECT pg_advisory_lock(7); SELECT 1 / 0",
            Parked("exhausted", "division by zero"),
            LOCKS,
        ),
    ];
    let mut stage = stage().await;
    stage.config.database.schema = Some(stage.schema.name().to_owned());
    let running = stage.start(acting()).await;
    let look =
        |n: i64| told("own", n, json!({"sql": format!("INSERT INTO seen SELECT {}, {own}", -n)}));
    stage.send(&[look(1)]).await;
    eventually(SOON, "the first look", async || stage.of("own").await == [1]).await;
    for (at, case) in cases.iter().enumerate() {
        check(&stage, at, case).await;
    }
    stage.send(&[look(2)]).await;
    eventually(SOON, "the second look", async || stage.of("own").await == [1, 2]).await;
    let same = "SELECT count(DISTINCT what) FROM seen WHERE at < 0";
    assert_eq!(stage.schema.number(same).await, 1, "the runtime's own settings");
    let pids = "SELECT count(DISTINCT pid) FROM seen WHERE at BETWEEN -1 AND 14";
    assert_eq!(stage.schema.number(pids).await, 1, "the connection stays");
    assert_eq!(running.counters.read().outages, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Handlers that do none of it pay nothing: no statement between two transactions.
#[tokio::test]
async fn a_session_that_nobody_has_touched_is_not_reset() {
    let stage = stage().await;
    stage.schema.run("CREATE SEQUENCE resets").await;
    let running = stage.start(acting()).await;
    // What a reset would forget.
    let keep = "SELECT nextval('resets'); SELECT set_config('timezone', 'Asia/Tokyo', true)";
    let look = "INSERT INTO seen SELECT 1, currval('resets')";
    stage.send(&[told("a", 1, json!({"sql": keep})), told("a", 2, json!({"sql": look}))]).await;
    eventually(SOON, "both", async || stage.of("a").await == [1, 2]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Its own fault, whatever the database calls it: an event that breaks its connection, or says that the disk is
/// full, is tried again and parked. The partition is not paused, and others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_that_one_event_brings_about_is_no_outage() {
    const MET: Fate = Parked("exhausted", "conflicted 5 times alone while others committed");
    let cases = [
        guarded("COPY effects FROM STDIN", refused("tx.unguarded()"), NOTHING),
        guarded("COPY (SELECT 1) TO STDOUT", refused("tx.unguarded()"), NOTHING),
        past("COPY effects FROM STDIN", MET, NOTHING),
        past("DEALLOCATE ALL", Done, PREPARED),
        guarded("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)", MET, NOTHING),
        past("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)", MET, NOTHING),
        guarded("DO $$ BEGIN RAISE SQLSTATE '53100'; END $$", MET, NOTHING),
        guarded("DO $$ BEGIN RAISE SQLSTATE '08006'; END $$", MET, NOTHING),
    ];
    let mut stage = stage().await;
    // Others have lanes of their own here.
    stage.config.lanes.count = 64;
    let running = stage.start(acting()).await;
    let stop = AtomicBool::new(false);
    let others = async {
        let mut n = 0;
        while !stop.load(Ordering::Relaxed) {
            n += 1;
            stage.send(&[told("kept-1", n, json!({})), told("kept-2", n, json!({}))]).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        n
    };
    let checks = async {
        for (at, case) in cases.iter().enumerate() {
            check(&stage, at, case).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (sent, ()) = tokio::join!(others, checks);
    eventually(SOON, "the others", async || {
        stage.of("kept-1").await.len() + stage.of("kept-2").await.len()
            == 2 * usize::try_from(sent).unwrap()
    })
    .await;
    assert_eq!(running.counters.read().outages, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The same where nobody else commits: another connection shows that the database works.
#[tokio::test]
async fn an_event_that_breaks_its_connection_is_parked_on_a_quiet_partition() {
    let cases = [past(
        "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)",
        Parked("exhausted", "conflicted 5 times alone"),
        NOTHING,
    )];
    let (_stage, running) = check_all(&cases).await;
    assert_eq!(running.counters.read().outages, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The inbox's own tables: what names them is refused, what changes them out of sight is found. Tables of users
/// that merely begin so are theirs.
#[tokio::test]
async fn the_tables_of_the_inbox_are_the_runtime_s() {
    const OWN: Fate = refused("belongs to the inbox");
    const FOUND: Fate = Parked("rejected", "changed rows of inbox_events");
    let cases = [
        guarded("DELETE FROM inbox_events", OWN, CLAIMED),
        guarded(
            "WITH d AS (DELETE FROM ONLY \"inbox_events\" RETURNING 1) SELECT * FROM d",
            OWN,
            CLAIMED,
        ),
        guarded("UPDATE inbox_lanes SET last_offset = 0", OWN, CLAIMED),
        guarded("TRUNCATE seen, inbox_parked", OWN, CLAIMED),
        guarded("INSERT INTO inbox_notes SELECT 'x' FROM inbox_events", Done, CLAIMED),
        guarded(
            "SELECT count(*) FROM inbox_events JOIN inbox_partitions USING (partition_ref)",
            Done,
            CLAIMED,
        ),
        guarded("SELECT unclaim()", FOUND, CLAIMED),
        guarded("SELECT claim_another()", FOUND, CLAIMED),
        guarded("SELECT rename_claims()", FOUND, CLAIMED),
        guarded("INSERT INTO watched VALUES (1)", FOUND, CLAIMED),
        past("DELETE FROM inbox_events", FOUND, CLAIMED),
    ];
    let (_stage, running) = check_all(&cases).await;
    assert_eq!(running.counters.read().outages, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}
