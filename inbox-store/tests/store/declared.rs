//! The statement of a declared handler for one event, which is another one than that for several.

use std::borrow::Cow;

use inbox_conformance::Probe as _;
use inbox_store::internal::port::{
    Claim as _, ColumnType, Declarations as _, Relation, Schemas as _, Sessions as _, Shape, Values,
};
use sqlx::Postgres;
use uuid::Uuid;

use super::{LIMITS, postgres::settings};

/// Values of every type, and none of every type: an event alone leaves the row that it leaves among others, by a plan
/// that is there already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_event_has_the_columns_that_it_has_among_others() {
    let Some(settings) = settings("declared_one").await else { return };
    let mut admin = Postgres::administer(&settings).await.unwrap();
    Postgres::migrate(&mut admin).await.unwrap();
    Postgres::run(&mut admin, "CREATE TABLE seen (event text)").await.unwrap();
    let names: Vec<String> = ColumnType::ALL.iter().map(|column| format!("c_{column}")).collect();
    let columns = names.iter().map(String::as_str).zip(ColumnType::ALL).collect();
    let sql = "INSERT INTO seen SELECT events::text FROM events";
    let declared = Postgres::declare(&Shape { sql, columns }).unwrap();
    let mut session = Postgres::open(&settings).await.unwrap();
    for is_null in [false, true] {
        let mut first = Vec::new();
        for events in [1, 2] {
            Postgres::begin(&mut session, &LIMITS).await.unwrap();
            let relation = relation(events, is_null);
            Postgres::apply(&mut session, &declared, false, &relation).await.unwrap();
            let row = "SELECT min(event) FROM seen HAVING count(*) = ";
            let row = Postgres::text(&mut session, &format!("{row}{events}")).await.unwrap();
            first.push(row.expect("a row for each event"));
            Postgres::rollback(&mut session).await.unwrap();
        }
        assert_eq!(first[0], first[1]);
    }
    Postgres::begin(&mut session, &LIMITS).await.unwrap();
    for _ in 0..20 {
        Postgres::apply(&mut session, &declared, true, &relation(1, false)).await.unwrap();
    }
    // PostgreSQL tries five plans before it keeps one.
    let replanned = "SELECT count(*) FROM pg_prepared_statements WHERE custom_plans > 5";
    assert_eq!(Postgres::number(&mut session, replanned).await.unwrap(), 0);
}

fn relation(events: usize, is_null: bool) -> Relation<'static> {
    let values = |column| match column {
        ColumnType::Bool => Values::Bools(of(events, is_null, true)),
        ColumnType::Bytea => Values::Bytes(of(events, is_null, vec![0, 255])),
        ColumnType::Date => Values::Days(of(events, is_null, -20_000)),
        ColumnType::Float8 => Values::Floats(of(events, is_null, 0.1)),
        ColumnType::Int4 => Values::Ints(of(events, is_null, i32::MIN)),
        ColumnType::Int8 => Values::Longs(of(events, is_null, i64::MAX)),
        ColumnType::Jsonb => {
            Values::Texts(of(events, is_null, Cow::from(r#"{"b": [1.10, null]}"#)))
        }
        ColumnType::Numeric => {
            Values::Texts(of(events, is_null, Cow::from("12345678901234567890.120")))
        }
        ColumnType::Text => Values::Texts(of(events, is_null, Cow::from("it's, \"so\""))),
        ColumnType::Timestamptz => Values::Micros(of(events, is_null, 253_402_300_799_999_999)),
        ColumnType::Uuid => Values::Uuids(of(events, is_null, Uuid::from_bytes([7; 16]))),
    };
    Relation {
        ids: (1..=events as u128).map(Uuid::from_u128).collect(),
        aggregate_ids: vec!["order-7"; events],
        occurred_at: of(events, is_null, 1_769_851_800_000_001),
        columns: ColumnType::ALL.map(values).into(),
    }
}

fn of<T: Clone>(events: usize, is_null: bool, value: T) -> Vec<Option<T>> {
    vec![(!is_null).then_some(value); events]
}
