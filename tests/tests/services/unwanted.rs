//! What a producer sends that nobody has asked for, through the whole pipeline on each database: contents made to be
//! taken for one another, and records that nobody can take.

use inbox_consumer::{
    Event, Handler, HandlerError, HandlerResult, Routes, Tx,
    config::{Config, Unwanted},
    testing::{Aggregate, HandlerTest, Header, OutboxEvent, Outcome, Record, conformance::Probe},
};
use serde::Deserialize;
use sqlx::{Postgres, Sqlite};
use tests::{SOON, Services};

/// Two payloads that XXH3 has one fingerprint of, as events `Counted` of the aggregate `Order/7`.
const COLLIDING: [&str; 2] = [
    include_str!("../../../inbox-runtime/tests/colliding/one.json"),
    include_str!("../../../inbox-runtime/tests/colliding/other.json"),
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
                if event.payload.n == 13 {
                    return Err(HandlerError::reject("told to reject"));
                }
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
    what_nobody_can_take_is_sent_on_in_order_and_once
    what_nobody_can_take_is_ignored_where_that_is_said
    what_turns_out_at_a_release_is_sent_on_too
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

/// One aggregate may be parked of a partition: a second one would stop it.
fn with(fate: Unwanted) -> impl FnOnce(&mut Config) {
    move |config| {
        config.events.unknown_type = fate;
        config.events.undecodable = fate;
        config.events.dead_letter_topic = Some("letters".into());
        config.events.event_bytes_max = 1024;
        config.limits.parked_aggregates_max = 1;
    }
}

/// No event, an event whose payload is none, and one that nobody handles, each under a key of its own.
fn nobody_takes() -> [Record; 4] {
    let under = |key: &'static str, record: Record| Record { key: Some(key.into()), ..record };
    let junk = Record { payload: Some("\0 junk".into()), ..Record::default() };
    let large = Record { payload: Some(vec![b' '; 2000].into()), ..Record::default() };
    [
        under("a", junk),
        under("b", order("b-1", "Counted", "no JSON")),
        under("c", order("c-1", "Strange", r#"{"n":"kept"}"#)),
        under("d", large),
    ]
}

/// How many letters hold all of these texts.
async fn letters<DB: Probe>(bench: &mut HandlerTest<DB>, texts: &[&str]) -> i64 {
    let text = if DB::POISONS { "convert_from(payload, 'UTF8')" } else { "CAST(payload AS text)" };
    let like = texts.iter().map(|part| format!(" AND {text} LIKE '%{part}%'")).collect::<String>();
    let all =
        "SELECT count(*) FROM outbox_events WHERE topic = 'letters' AND event_type = 'DeadLetter'";
    bench.number(&format!("{all}{like}")).await.unwrap()
}

async fn count<DB: Probe>(bench: &mut HandlerTest<DB>, table: &str) -> i64 {
    bench.number(&format!("SELECT count(*) FROM {table}")).await.unwrap()
}

async fn what_nobody_can_take_is_sent_on_in_order_and_once<DB: Probe>(mut bench: HandlerTest<DB>)
where
    Count: Handler<DB>,
{
    bench.execute(TABLES).await.unwrap();
    bench.configure(with(Unwanted::DeadLetter));
    bench.handle(Routes::default().on("Counted", Count)).await.unwrap();
    for record in nobody_takes() {
        assert_eq!(bench.deliver_record(&record).await.unwrap(), Outcome::Applied);
    }
    for (reason, texts) in [
        ("undecodable", [r#""offset":0"#, r#"{"base64":"ACBqdW5r"}"#]),
        ("undecodable", [r#""offset":1"#, r#"{"text":"no JSON"}"#]),
        ("unknown_type", [r#""offset":2"#, r#"kept"#]),
        ("undecodable", [r#""offset":3"#, r#""payload_bytes":2000"#]),
    ] {
        let reason = format!(r#""reason":"{reason}""#);
        assert_eq!(letters(&mut bench, &[&reason, texts[0], texts[1]]).await, 1, "{texts:?}");
    }
    // What follows goes on, and a copy is one.
    let good = order("good", "Counted", r#"{"n":1}"#);
    let [_, wrong, strange, _] = nobody_takes();
    assert_eq!(bench.deliver_record(&good).await.unwrap(), Outcome::Applied);
    for copy in [wrong, strange] {
        assert_eq!(bench.deliver_record(&copy).await.unwrap(), Outcome::Duplicate);
    }
    assert_eq!(letters(&mut bench, &[]).await, 4);
    assert_eq!(
        (count(&mut bench, "effects").await, count(&mut bench, "inbox_parked").await),
        (1, 0)
    );

    let aggregate = Aggregate::new("Order", "8").unwrap();
    let crashing = OutboxEvent::new("Strange", &aggregate, &1).unwrap();
    bench.crashed_before_commit(&crashing).await.unwrap();
    assert_eq!(letters(&mut bench, &[]).await, 5, "once, by a crash");
    let places = "SELECT count(*) FROM outbox_events a JOIN outbox_events b ON a.seq < b.seq AND \
                  a.event_id = b.event_id";
    assert_eq!(bench.number(places).await.unwrap(), 0);
    bench.close().await.unwrap();
}

async fn what_nobody_can_take_is_ignored_where_that_is_said<DB: Probe>(mut bench: HandlerTest<DB>)
where
    Count: Handler<DB>,
{
    bench.execute(TABLES).await.unwrap();
    bench.configure(with(Unwanted::Ignore));
    bench.handle(Routes::default().on("Counted", Count)).await.unwrap();
    let mut fates = Vec::new();
    for record in nobody_takes() {
        fates.push(bench.deliver_record(&record).await.unwrap());
    }
    // The payload is looked at when its event has been claimed.
    assert_eq!(fates, [Outcome::Ignored, Outcome::Applied, Outcome::Ignored, Outcome::Ignored]);
    let good = order("good", "Counted", r#"{"n":1}"#);
    assert_eq!(bench.deliver_record(&good).await.unwrap(), Outcome::Applied);
    assert_eq!(
        (count(&mut bench, "effects").await, count(&mut bench, "inbox_parked").await),
        (1, 0)
    );
    assert_eq!(letters(&mut bench, &[]).await, 0);
    bench.close().await.unwrap();
}

/// A follower is not looked at before its turn comes.
async fn what_turns_out_at_a_release_is_sent_on_too<DB: Probe>(mut bench: HandlerTest<DB>)
where
    Count: Handler<DB>,
{
    bench.execute(TABLES).await.unwrap();
    bench.configure(with(Unwanted::DeadLetter));
    bench.handle(Routes::default().on("Counted", Count)).await.unwrap();
    for (id, payload, reason) in [
        ("head", r#"{"n":13}"#, "rejected"),
        ("wrong", "no JSON", "follower"),
        ("last", r#"{"n":2}"#, "follower"),
    ] {
        let outcome = bench.deliver_record(&order(id, "Counted", payload)).await.unwrap();
        assert_eq!(outcome.reason(), reason, "{id}");
    }
    let discard =
        "UPDATE inbox_parked SET intent = 'discard', intent_by = 'test' WHERE reason = 'rejected'";
    assert_eq!(bench.execute(discard).await.unwrap(), 1);
    let began = std::time::Instant::now();
    while count(&mut bench, "inbox_parked").await > 0 && began.elapsed() < SOON {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(
        (count(&mut bench, "inbox_parked").await, count(&mut bench, "effects").await),
        (0, 1)
    );
    assert_eq!(letters(&mut bench, &["no JSON"]).await, 1);
    bench.close().await.unwrap();
}
