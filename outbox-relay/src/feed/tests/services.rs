//! The scenarios on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by `cargo xtask test`).

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};
use uuid::Uuid;

use std::time::Duration;

use super::{LOOK, Place, SHOP, Tested, decisions, parking, scenarios, seqs};
use crate::port::{
    Address, Inspection as _, Measurements as _, ParkState, Parked as _, RowQuery, Rows as _,
    SeatChoice, Sessions as _, Shards, Turn, TurnAnswer, TurnRequest, Turns as _, UsedSeat,
};

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

/// What is ready in a seat's shards: rows of the feed, and of the parking store.
async fn found(place: &mut Place<Postgres>, turn: Turn, shards: Shards) -> [Vec<i64>; 2] {
    let query = RowQuery { shards, ..LOOK };
    let unsent = Postgres::unsent(&mut place.session, query).await.unwrap().rows;
    let behind = RowQuery { shards, read_to: 1, ..LOOK };
    let page = Postgres::unsent(&mut place.session, behind).await.unwrap();
    let rest: Vec<i64> = page.earlier.iter().copied().chain(seqs(&page.rows)).collect();
    assert_eq!(rest, seqs(&unsent), "wherever a read begins");
    let claimed = Postgres::claim(&mut place.session, (turn, shards), SHOP, 100, 1 << 20).await;
    let mut claimed = seqs(&claimed.unwrap().expect("the turn is ours"));
    claimed.sort_unstable();
    [seqs(&unsent), claimed]
}

/// Each row is in one shard; shards are given, and taken from a relay that has died.
#[tokio::test]
async fn relays_share_an_outbox_by_aggregates() {
    let mut place = Place::<Postgres>::new(session().await).await;
    let names: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    place.append(&names).await;
    let mut parked = Vec::new();
    for seq in 31..=60 {
        parked.push(parking(place.id(seq).await, ParkState::Ready));
    }
    place.park(parked).await;
    let request = |seats| TurnRequest {
        holder: "other",
        lease: Duration::from_mins(1),
        seats,
        token: Uuid::new_v4(),
        silent: None,
    };
    let own = place.turn;
    let held = Postgres::take_turn(&mut place.session, request(SeatChoice::WithShards)).await;
    assert!(matches!(held.unwrap(), TurnAnswer::Held(_)));
    let other = Postgres::take_turn(&mut place.session, request(SeatChoice::Any)).await.unwrap();
    let TurnAnswer::Taken(other, Shards(0)) = other else { panic!("{other:?}") };
    assert_eq!((own.seat, other.seat), (1, 2));
    let alone = Postgres::take_turn(&mut place.session, request(SeatChoice::Other(1))).await;
    assert_eq!(alone.unwrap(), TurnAnswer::Alone);

    let half = Shards(0x0F0F);
    Postgres::give_shards(&mut place.session, own, other.seat, half).await.unwrap();
    // Nobody has that seat.
    Postgres::give_shards(&mut place.session, own, 9, Shards::ALL).await.unwrap();
    let live = Postgres::used_seats(&mut place.session).await.unwrap();
    let seat = |seat, shards| UsedSeat { seat, shards, is_live: true };
    assert_eq!(live, [seat(1, Shards(0xF0F0)), seat(2, half)]);
    let ours = found(&mut place, own, Shards(0xF0F0)).await;
    let theirs = found(&mut place, other, half).await;
    for (which, wanted) in [(0, 1..=30), (1, 31..=60)] {
        let mut both = [&ours[which][..], &theirs[which]].concat();
        both.sort_unstable();
        assert!(ours[which].len() > 5 && theirs[which].len() > 5, "{ours:?} {theirs:?}");
        assert_eq!(both, wanted.collect::<Vec<i64>>(), "each row is in one of them");
    }

    place.run("UPDATE outbox_relays SET lease_until = now() WHERE relay_ref = 2").await;
    let dead = Postgres::take_turn(&mut place.session, request(SeatChoice::Other(1))).await;
    let TurnAnswer::Taken(dead, shards) = dead.unwrap() else { panic!("its lease is over") };
    assert_eq!((dead.seat, shards), (2, half));
    let merged = Postgres::merge_turns(&mut place.session, other, own).await.unwrap();
    assert_eq!(merged, None, "another has had the turn since");
    let merged = Postgres::merge_turns(&mut place.session, dead, own).await.unwrap();
    assert_eq!(merged, Some(Shards::ALL));
    let kept = Postgres::keep_turn(&mut place.session, own, Duration::from_mins(1), None).await;
    assert_eq!(kept.unwrap().map(|kept| kept.shards), Some(Shards::ALL));
    let live = Postgres::used_seats(&mut place.session).await.unwrap();
    assert_eq!(live, [seat(1, Shards::ALL)]);
    let back = found(&mut place, own, Shards::ALL).await;
    assert_eq!(back[1], theirs[1], "what the other had claimed");
    dropped(place.session).await;
}
