//! The scenarios on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by `cargo xtask test`).

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};
use uuid::Uuid;

use super::{Place, Tested, scenarios};

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
