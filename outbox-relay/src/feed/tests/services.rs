//! The scenarios on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by `cargo xtask test`).

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};
use uuid::Uuid;

use std::time::Duration;

use super::{Place, Tested, decisions, scenarios};
use crate::port::{Address, Inspection as _, Measurements as _, Sessions as _, Turns as _};

impl Tested for Postgres {
    const ID: &'static str = "gen_random_uuid()";
    const PAST: &'static str = "clock_timestamp() - interval '1 minute'";
    const FUTURE: &'static str = "clock_timestamp() + interval '1 hour'";
    const ENDS: [&'static str; 2] = ["'infinity'", "'-infinity'"];
}

/// A session in a schema of its own, which goes with its session.
pub(super) async fn session() -> PgConnection {
    let url = std::env::var("INBOX_TEST_POSTGRES")
        .expect("INBOX_TEST_POSTGRES names no server; run the tests with `cargo xtask test`");
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let schema = format!("feed_{}", Uuid::new_v4().simple());
    let set = format!("CREATE SCHEMA {schema}; SET search_path = {schema}; SET jit = off");
    sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut conn).await.unwrap();
    conn
}

pub(super) async fn dropped(mut conn: PgConnection) {
    let sql = "DO $$ BEGIN EXECUTE 'DROP SCHEMA ' || current_schema() || ' CASCADE'; END $$";
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
}

#[tokio::test]
async fn a_row_that_waits_is_claimed_when_its_time_has_come() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_row_that_waits_is_claimed_when_its_time_has_come(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_is_behind_goes_after_the_delivery() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_is_behind_goes_after_the_delivery(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_came_of_an_attempt_is_stored_in_the_turn_alone() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_came_of_an_attempt_is_stored_in_the_turn_alone(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_row_behind_another_that_waits_is_not_claimed() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_row_behind_another_that_waits_is_not_claimed(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_claim_has_bounds() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_claim_has_bounds(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_row_with_a_time_waits_for_it() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_row_with_a_time_waits_for_it(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_is_ready_is_behind_a_row_that_fails() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_is_ready_is_behind_a_row_that_fails(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_read_goes_on_and_tells_what_waits_below() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_read_goes_on_and_tells_what_waits_below(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn claims_are_those_of_a_turn() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::claims_are_those_of_a_turn(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_was_changed_by_hand_is_released() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_was_changed_by_hand_is_released(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_waits_is_never_removed() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_waits_is_never_removed(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn no_time_of_a_row_stops_a_look() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::no_time_of_a_row_stops_a_look(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_person_decides_about_rows_that_wait() {
    let mut place = Place::<Postgres>::new(session().await).await;
    decisions::a_person_decides_about_rows_that_wait(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_retried_row_keeps_its_place() {
    let mut place = Place::<Postgres>::new(session().await).await;
    decisions::a_retried_row_keeps_its_place(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_is_being_delivered_is_left_alone() {
    let mut place = Place::<Postgres>::new(session().await).await;
    decisions::what_is_being_delivered_is_left_alone(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_rows_wait_for_is_named() {
    let mut place = Place::<Postgres>::new(session().await).await;
    decisions::what_rows_wait_for_is_named(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn destinations_that_rows_wait_for_are_read_to_the_last() {
    let mut place = Place::<Postgres>::new(session().await).await;
    decisions::destinations_that_rows_wait_for_are_read_to_the_last(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn retention_goes_on_behind_what_is_unsent() {
    let mut place = Place::<Postgres>::new(session().await).await;
    decisions::retention_goes_on_behind_what_is_unsent(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_key_longer_than_append_takes_is_refused() {
    let mut place = Place::<Postgres>::new(session().await).await;
    decisions::a_key_longer_than_append_takes_is_refused(&mut place).await;
    dropped(place.session).await;
}

/// An outbox that was partitioned by hand works; its size is that of its partitions, and what it lacks is reported.
#[tokio::test]
async fn a_partitioned_outbox_is_measured_and_what_it_lacks_is_reported() {
    let mut place = Place::<Postgres>::new(session().await).await;
    let plain = Postgres::reading(&mut place.session).await.unwrap();
    assert!(plain.table_bytes > Some(0) && plain.index_bytes > Some(0), "{plain:?}");
    assert_eq!(Postgres::findings(&mut place.session).await.unwrap(), []);
    for sql in [
        "ALTER TABLE outbox_events RENAME TO outbox_before",
        "CREATE TABLE outbox_events (LIKE outbox_before INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING CONSTRAINTS,
            PRIMARY KEY (seq)) PARTITION BY RANGE (seq)",
        "CREATE TABLE outbox_1 PARTITION OF outbox_events FOR VALUES FROM (MINVALUE) TO (MAXVALUE)",
        "CREATE UNIQUE INDEX ON outbox_1 (dedup_key)",
        "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id)
            SELECT gen_random_uuid(), 'T', 'A', n::text FROM generate_series(1, 1000) n",
    ] {
        place.run(sql).await;
    }
    let reading = Postgres::reading(&mut place.session).await.unwrap();
    assert!(reading.table_bytes > plain.table_bytes, "{reading:?}");
    assert!(reading.index_bytes > Some(0), "{reading:?}");
    let found = Postgres::findings(&mut place.session).await.unwrap();
    let text = "outbox_events is partitioned, and PostgreSQL has no unique index on dedup_key";
    assert!(
        found.iter().any(|finding| !finding.fatal && finding.text.starts_with(text)),
        "{found:?}"
    );
    dropped(place.session).await;
}

/// A relay that is frozen within a transaction has the row of its turn locked.
#[tokio::test]
async fn a_relay_that_is_frozen_while_it_stores_keeps_the_turn_from_nobody() {
    let mut place = Place::<Postgres>::new(session().await).await;
    let schema: String =
        sqlx::query_scalar("SELECT current_schema()").fetch_one(&mut place.session).await.unwrap();
    let url = std::env::var("INBOX_TEST_POSTGRES").unwrap();
    for statement_cache in [100, 0] {
        let address = Address {
            schema: Some(&schema),
            application: "outbox",
            statement_cache,
            statement_timeout: Duration::from_mins(1),
        };
        let settings = Postgres::settings(Postgres::options(&url, None).unwrap(), &address);
        let mut frozen = Postgres::open(&settings).await.unwrap();
        Postgres::begin(&settings, &mut frozen).await.unwrap();
        if statement_cache > 0 {
            sqlx::raw_sql("BEGIN").execute(&mut frozen).await.unwrap();
        }
        let lock = "SELECT FROM outbox_relays FOR NO KEY UPDATE";
        sqlx::raw_sql(lock).execute(&mut frozen).await.unwrap();
        let kept = tokio::time::timeout(
            Duration::from_secs(20),
            Postgres::keep_turn(&mut place.session, place.turn, Duration::from_mins(1), None),
        );
        assert!(kept.await.expect("the lock ends").unwrap().is_some());
    }
    dropped(place.session).await;
}
