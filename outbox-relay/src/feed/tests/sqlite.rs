//! The scenarios on SQLite.

use sqlx::{Connection as _, Sqlite, SqliteConnection};

use super::{Place, Tested, decisions, scenarios};

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
async fn a_row_that_waits_is_claimed_when_its_time_has_come() {
    scenarios::a_row_that_waits_is_claimed_when_its_time_has_come(&mut place().await).await;
}

#[tokio::test]
async fn what_is_behind_goes_after_the_delivery() {
    scenarios::what_is_behind_goes_after_the_delivery(&mut place().await).await;
}

#[tokio::test]
async fn what_came_of_an_attempt_is_stored_in_the_turn_alone() {
    scenarios::what_came_of_an_attempt_is_stored_in_the_turn_alone(&mut place().await).await;
}

#[tokio::test]
async fn a_row_behind_another_that_waits_is_not_claimed() {
    scenarios::a_row_behind_another_that_waits_is_not_claimed(&mut place().await).await;
}

#[tokio::test]
async fn a_claim_has_bounds() {
    scenarios::a_claim_has_bounds(&mut place().await).await;
}

#[tokio::test]
async fn a_row_with_a_time_waits_for_it() {
    scenarios::a_row_with_a_time_waits_for_it(&mut place().await).await;
}

#[tokio::test]
async fn what_is_ready_is_behind_a_row_that_fails() {
    scenarios::what_is_ready_is_behind_a_row_that_fails(&mut place().await).await;
}

#[tokio::test]
async fn a_read_goes_on_and_tells_what_waits_below() {
    scenarios::a_read_goes_on_and_tells_what_waits_below(&mut place().await).await;
}

#[tokio::test]
async fn claims_are_those_of_a_turn() {
    scenarios::claims_are_those_of_a_turn(&mut place().await).await;
}

#[tokio::test]
async fn what_was_changed_by_hand_is_released() {
    scenarios::what_was_changed_by_hand_is_released(&mut place().await).await;
}

#[tokio::test]
async fn what_waits_is_never_removed() {
    scenarios::what_waits_is_never_removed(&mut place().await).await;
}

#[tokio::test]
async fn no_time_of_a_row_stops_a_look() {
    scenarios::no_time_of_a_row_stops_a_look(&mut place().await).await;
}

#[tokio::test]
async fn a_person_decides_about_rows_that_wait() {
    decisions::a_person_decides_about_rows_that_wait(&mut place().await).await;
}

#[tokio::test]
async fn a_retried_row_keeps_its_place() {
    decisions::a_retried_row_keeps_its_place(&mut place().await).await;
}

#[tokio::test]
async fn what_is_being_delivered_is_left_alone() {
    decisions::what_is_being_delivered_is_left_alone(&mut place().await).await;
}

#[tokio::test]
async fn what_rows_wait_for_is_named() {
    decisions::what_rows_wait_for_is_named(&mut place().await).await;
}

#[tokio::test]
async fn destinations_that_rows_wait_for_are_read_to_the_last() {
    decisions::destinations_that_rows_wait_for_are_read_to_the_last(&mut place().await).await;
}

#[tokio::test]
async fn retention_goes_on_behind_what_is_unsent() {
    decisions::retention_goes_on_behind_what_is_unsent(&mut place().await).await;
}

#[tokio::test]
async fn a_key_longer_than_append_takes_is_refused() {
    decisions::a_key_longer_than_append_takes_is_refused(&mut place().await).await;
}
