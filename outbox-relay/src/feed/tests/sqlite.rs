//! The scenarios on SQLite.

use sqlx::{Connection as _, Sqlite, SqliteConnection};

use super::{Place, Tested, scenarios};

impl Tested for Sqlite {
    const ID: &'static str = "randomblob(16)";
    const PAST: &'static str = "CAST(unixepoch('subsec') * 1000 AS INTEGER) - 60000";
    const FUTURE: &'static str = "CAST(unixepoch('subsec') * 1000 AS INTEGER) + 3600000";
    const ENDS: [&'static str; 2] = ["9223372036854775807", "-9223372036854775808"];
}

async fn place() -> Place<Sqlite> {
    Place::new(SqliteConnection::connect("sqlite::memory:").await.unwrap()).await
}

#[tokio::test]
async fn a_row_that_waits_is_read_when_its_time_has_come() {
    scenarios::a_row_that_waits_is_read_when_its_time_has_come(&mut place().await).await;
}

#[tokio::test]
async fn what_is_held_goes_after_the_delivery() {
    scenarios::what_is_held_goes_after_the_delivery(&mut place().await).await;
}

#[tokio::test]
async fn what_came_of_an_attempt_is_booked_in_the_turn_alone() {
    scenarios::what_came_of_an_attempt_is_booked_in_the_turn_alone(&mut place().await).await;
}

#[tokio::test]
async fn a_row_behind_another_that_waits_is_held() {
    scenarios::a_row_behind_another_that_waits_is_held(&mut place().await).await;
}

#[tokio::test]
async fn a_look_for_due_rows_has_bounds() {
    scenarios::a_look_for_due_rows_has_bounds(&mut place().await).await;
}

#[tokio::test]
async fn a_row_with_a_time_waits_for_it() {
    scenarios::a_row_with_a_time_waits_for_it(&mut place().await).await;
}

#[tokio::test]
async fn a_person_decides_about_rows_that_wait() {
    scenarios::a_person_decides_about_rows_that_wait(&mut place().await).await;
}

#[tokio::test]
async fn what_waits_is_never_removed() {
    scenarios::what_waits_is_never_removed(&mut place().await).await;
}

#[tokio::test]
async fn what_an_older_build_has_changed_is_no_row_that_waits() {
    scenarios::what_an_older_build_has_changed_is_no_row_that_waits(&mut place().await).await;
}

#[tokio::test]
async fn no_time_of_a_row_stops_a_look() {
    scenarios::no_time_of_a_row_stops_a_look(&mut place().await).await;
}

#[tokio::test]
async fn names_that_rows_wait_for_are_read_to_the_last() {
    scenarios::names_that_rows_wait_for_are_read_to_the_last(&mut place().await).await;
}

#[tokio::test]
async fn retention_goes_on_behind_what_is_unsent() {
    scenarios::retention_goes_on_behind_what_is_unsent(&mut place().await).await;
}

#[tokio::test]
async fn a_key_longer_than_append_takes_is_refused() {
    scenarios::a_key_longer_than_append_takes_is_refused(&mut place().await).await;
}
