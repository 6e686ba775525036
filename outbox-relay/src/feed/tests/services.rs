//! The scenarios on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by `cargo xtask test`).

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};
use uuid::Uuid;

use super::{Place, Tested, scenarios};
use crate::port::{Inspection as _, Measurements as _};

impl Tested for Postgres {
    const ID: &'static str = "gen_random_uuid()";
    const PAST: &'static str = "clock_timestamp() - interval '1 minute'";
    const FUTURE: &'static str = "clock_timestamp() + interval '1 hour'";
    const ENDS: [&'static str; 2] = ["'infinity'", "'-infinity'"];
}

/// A session in a schema of its own, which goes with its session.
pub(in crate::feed) async fn session() -> PgConnection {
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
async fn a_row_that_waits_is_read_when_its_time_has_come() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_row_that_waits_is_read_when_its_time_has_come(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_is_held_goes_after_the_delivery() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_is_held_goes_after_the_delivery(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_came_of_an_attempt_is_booked_in_the_turn_alone() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_came_of_an_attempt_is_booked_in_the_turn_alone(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_row_behind_another_that_waits_is_held() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_row_behind_another_that_waits_is_held(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_look_for_due_rows_has_bounds() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_look_for_due_rows_has_bounds(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_row_with_a_time_waits_for_it() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_row_with_a_time_waits_for_it(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_person_decides_about_rows_that_wait() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_person_decides_about_rows_that_wait(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_waits_is_never_removed() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_waits_is_never_removed(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn what_an_older_build_has_changed_is_no_row_that_waits() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::what_an_older_build_has_changed_is_no_row_that_waits(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn no_time_of_a_row_stops_a_look() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::no_time_of_a_row_stops_a_look(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn names_that_rows_wait_for_are_read_to_the_last() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::names_that_rows_wait_for_are_read_to_the_last(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn retention_goes_on_behind_what_is_unsent() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::retention_goes_on_behind_what_is_unsent(&mut place).await;
    dropped(place.session).await;
}

#[tokio::test]
async fn a_key_longer_than_append_takes_is_refused() {
    let mut place = Place::<Postgres>::new(session().await).await;
    scenarios::a_key_longer_than_append_takes_is_refused(&mut place).await;
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
