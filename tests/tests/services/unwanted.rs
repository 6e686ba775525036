//! What a producer sends that nobody has asked for, through the whole pipeline on each database: contents made to be
//! taken for one another.

use inbox_consumer::{
    Event, Handler, HandlerResult, Routes, Tx,
    testing::{HandlerTest, Header, Outcome, Record, conformance::Probe},
};
use serde::Deserialize;
use sqlx::{Postgres, Sqlite};
use tests::Services;

/// Two payloads that XXH3 has one fingerprint of, as events `Counted` of the aggregate `Order/7`.
const COLLIDING: [&str; 2] = [
    include_str!("../../../inbox-consumer/tests/colliding/one.json"),
    include_str!("../../../inbox-consumer/tests/colliding/other.json"),
];
/// The fingerprint of `{"n":1}` of `Order/7` by builds before the column `sha256`.
const OLD_FINGERPRINT: &str = "d9b5050c630c5267b310ad9ef37e6e73";

const TABLES: &str = "CREATE TABLE effects (n bigint NOT NULL)";

struct Count;

#[derive(Deserialize)]
struct Counted {
    n: i64,
}

/// Runs a test on each database.
macro_rules! on_each {
    ($($test:ident)*) => {
        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                let server = super::Services::from_env().postgres;
                let bench = super::HandlerTest::postgres(&server).await.unwrap();
                super::$test::<sqlx::Postgres>(bench).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<sqlx::Sqlite>(super::HandlerTest::sqlite().await.unwrap()).await;
            })*
        }
    };
}

macro_rules! count_on {
    ($($database:ty)*) => {
        $(impl Handler<$database> for Count {
            type Event = Counted;

            async fn handle(&self, event: &Event<Counted>, tx: &mut Tx<'_, $database>) -> HandlerResult {
                let insert = "INSERT INTO effects (n) VALUES ($1)";
                sqlx::query(insert).bind(event.payload.n).execute(&mut *tx).await?;
                Ok(())
            }
        })*
    };
}
count_on! { Postgres Sqlite }

on_each! {
    contents_made_to_collide_are_told_apart
    rows_of_the_old_hash_know_their_copies
}

/// An event of the aggregate `Order/7`.
fn order(id: &str, event_type: &str, payload: &str) -> Record {
    let header = |(name, value): (&str, &str)| Header {
        name: name.to_owned().into(),
        value: Some(value.as_bytes().to_vec().into()),
    };
    let headers =
        [("event_id", id), ("event_type", event_type), ("aggregate_type", "Order")].map(header);
    Record {
        key: Some("7".into()),
        headers: headers.into(),
        payload: Some(payload.as_bytes().to_vec().into()),
        timestamp_ms: None,
    }
}

/// The second one would be dropped as a copy of the first, and nobody would know.
async fn contents_made_to_collide_are_told_apart<DB: Probe>(mut bench: HandlerTest<DB>)
where
    Count: Handler<DB>,
{
    bench.execute(TABLES).await.unwrap();
    bench.handle(Routes::default().on("Counted", Count)).await.unwrap();
    let [one, other] = COLLIDING.map(|payload| order("made", "Counted", payload));
    assert_eq!(bench.deliver_record(&one).await.unwrap(), Outcome::Applied);
    assert_eq!(bench.deliver_record(&one).await.unwrap(), Outcome::Duplicate);
    assert_eq!(bench.deliver_record(&other).await.unwrap().reason(), "mismatch");
    bench.close().await.unwrap();
}

/// What an older build has claimed is compared by the hash that it had.
async fn rows_of_the_old_hash_know_their_copies<DB: Probe>(mut bench: HandlerTest<DB>)
where
    Count: Handler<DB>,
{
    bench.execute(TABLES).await.unwrap();
    bench.handle(Routes::default().on("Counted", Count)).await.unwrap();
    let first = order("old", "Counted", r#"{"n":1}"#);
    assert_eq!(bench.deliver_record(&first).await.unwrap(), Outcome::Applied);
    let (before, after) = DB::BYTES_HEX;
    let older = format!(
        "UPDATE inbox_events SET sha256 = false, fingerprint = {before}{OLD_FINGERPRINT}{after}"
    );
    assert_eq!(bench.execute(&older).await.unwrap(), 1);
    assert_eq!(bench.deliver_record(&first).await.unwrap(), Outcome::Duplicate);
    let another = order("old", "Counted", r#"{"n":2}"#);
    assert_eq!(bench.deliver_record(&another).await.unwrap().reason(), "mismatch");
    // One that was written under this build's hash is compared by that alone.
    assert_eq!(bench.execute("UPDATE inbox_events SET sha256 = true").await.unwrap(), 1);
    assert_eq!(bench.deliver_record(&first).await.unwrap().reason(), "mismatch");
    bench.close().await.unwrap();
}
