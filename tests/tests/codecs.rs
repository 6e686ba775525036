//! Codecs that fetch what they need: before a transaction, never in one; and what their absence costs nobody.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use inbox_consumer::{
    Event, Handler, HandlerError, HandlerResult, Routes, Schedule, Tx,
    testing::{Aggregate, HandlerTest, Outcome},
};
use outbox_core::{CodecError, Decode, Payload, Preparation, Upcasts};
use sqlx::{Connection as _, Executor as _, Sqlite, SqliteConnection};
use tests::SOON;

const TYPE: &str = "Counted";

/// A payload is a number, which has to be looked up before it can be decoded.
#[derive(Clone, Default)]
struct LookedUp(Arc<State>);

#[derive(Default)]
struct State {
    known: Mutex<HashSet<u8>>,
    /// The look-up fails.
    away: AtomicBool,
    /// What was looked up is lost so often.
    lost: AtomicU32,
    asked: AtomicU32,
    /// The look-up never ends so often.
    hangs: AtomicU32,
    /// A database on which nobody may have a transaction open while something is looked up.
    idle: Mutex<Option<String>>,
}

impl State {
    async fn look_up(&self, number: u8) -> Result<(), CodecError> {
        self.asked.fetch_add(1, SeqCst);
        let idle = self.idle.lock().unwrap().clone();
        if let Some(url) = idle {
            let mut other = SqliteConnection::connect(&url).await.unwrap();
            other.execute("PRAGMA busy_timeout = 3000; BEGIN IMMEDIATE; ROLLBACK").await.unwrap();
        }
        if self.hangs.fetch_update(SeqCst, SeqCst, |hangs| hangs.checked_sub(1)).is_ok() {
            std::future::pending::<()>().await;
        }
        if self.away.load(SeqCst) {
            return Err(CodecError::Unavailable("the register is away".into()));
        }
        if number > 100 {
            return Err(CodecError::other("only decode tells it"));
        }
        self.known.lock().unwrap().insert(number);
        Ok(())
    }
}

impl Decode<u8> for LookedUp {
    fn decode(&self, payload: &Payload<'_>) -> Result<u8, CodecError> {
        let &[number] = payload.bytes()? else { return Err(CodecError::other("not one byte")) };
        if number > 100 {
            return Err(CodecError::Other(format!("the register does not know {number}")));
        }
        let lost = self.0.lost.fetch_update(SeqCst, SeqCst, |lost| lost.checked_sub(1)).is_ok();
        if lost || !self.0.known.lock().unwrap().contains(&number) {
            self.0.known.lock().unwrap().remove(&number);
            return Err(CodecError::Unavailable("it was looked up, and is lost".into()));
        }
        Ok(number)
    }

    fn prepare(&self, payload: &Payload<'_>) -> Option<Preparation<'_>> {
        let &[number] = payload.content()? else { return None };
        assert_ne!(number, 201, "a fault of the codec");
        let known = self.0.known.lock().unwrap().contains(&number);
        (!known).then(|| -> Preparation<'_> { Box::pin(self.0.look_up(number)) })
    }
}

/// Writes numbers down, with the attempt. Fails so often, and loses what was looked up then.
#[derive(Clone, Default)]
struct Write {
    codec: LookedUp,
    fails: Arc<AtomicU32>,
}

impl Handler<Sqlite> for Write {
    type Event = u8;

    async fn handle(&self, event: &Event<u8>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        if self.fails.fetch_update(SeqCst, SeqCst, |fails| fails.checked_sub(1)).is_ok() {
            self.codec.0.known.lock().unwrap().clear();
            return Err(HandlerError::retry("not yet"));
        }
        let insert = sqlx::query("INSERT INTO effects VALUES (?1, ?2)");
        insert.bind(event.payload).bind(event.attempt()).execute(&mut *tx).await?;
        Ok(())
    }
}

async fn bench(handler: &Write) -> HandlerTest<Sqlite> {
    let mut bench = HandlerTest::sqlite().await.unwrap();
    start(&mut bench, handler).await;
    bench
}

async fn start(bench: &mut HandlerTest<Sqlite>, handler: &Write) {
    bench.execute("CREATE TABLE effects (number INTEGER, attempt INTEGER)").await.unwrap();
    bench.configure(|config| config.retry.attempts_max = 1);
    let often = Schedule {
        delay_min: Duration::from_millis(1),
        delay_max: Duration::from_millis(1),
        releases_max: 50,
    };
    let routes = Routes::default().on_with(TYPE, handler.codec.clone(), handler.clone());
    bench.handle(routes.schedule(TYPE, often)).await.unwrap();
}

async fn deliver(bench: &mut HandlerTest<Sqlite>, number: u8) -> Outcome {
    let aggregate = Aggregate::new("Number", "1").unwrap();
    bench.deliver_version(TYPE, &aggregate, None, vec![number]).await.unwrap()
}

/// The numbers that were written, each by its first attempt.
async fn effects(bench: &mut HandlerTest<Sqlite>) -> (i64, i64) {
    (
        bench.number("SELECT count(*) FROM effects").await.unwrap(),
        bench.number("SELECT count(*) FROM effects WHERE attempt = 1").await.unwrap(),
    )
}

#[tokio::test]
async fn what_a_codec_lacks_is_fetched_outside_of_any_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inbox.db");
    let handler = Write::default();
    let mut bench = HandlerTest::sqlite_file(&file).await.unwrap();
    *handler.codec.0.idle.lock().unwrap() = Some(format!("sqlite:{}", file.display()));
    start(&mut bench, &handler).await;
    for number in [7, 7, 8] {
        assert_eq!(deliver(&mut bench, number).await, Outcome::Applied);
    }
    assert_eq!(handler.codec.0.asked.load(SeqCst), 2, "once for each");
    // The same before a release: its transaction is the one that tells which events there are.
    handler.fails.store(1, SeqCst);
    assert_eq!(deliver(&mut bench, 9).await.reason(), "exhausted");
    released(&mut bench).await;
    assert_eq!(handler.codec.0.asked.load(SeqCst), 4);
    assert_eq!(bench.number("SELECT max(number) FROM effects").await.unwrap(), 9);
    bench.close().await.unwrap();
}

async fn released(bench: &mut HandlerTest<Sqlite>) {
    let began = Instant::now();
    while bench.number("SELECT count(*) FROM inbox_parked").await.unwrap() > 0 {
        assert!(began.elapsed() < SOON, "it is still parked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn while_it_is_away_nothing_is_parked_and_no_attempt_is_spent() {
    let handler = Write::default();
    let mut bench = bench(&handler).await;
    handler.codec.0.away.store(true, SeqCst);
    let state = Arc::clone(&handler.codec.0);
    let back = tokio::spawn(async move {
        while state.asked.load(SeqCst) < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        state.away.store(false, SeqCst);
    });
    assert_eq!(deliver(&mut bench, 7).await, Outcome::Applied);
    back.await.unwrap();
    assert_eq!(effects(&mut bench).await, (1, 1));
    assert_eq!(bench.number("SELECT count(*) FROM inbox_parked").await.unwrap(), 0);
}

#[tokio::test]
async fn what_does_not_come_in_time_is_away() {
    let handler = Write::default();
    let mut bench = HandlerTest::sqlite().await.unwrap();
    bench.configure(|config| {
        config.retry.attempt_deadline = Duration::from_secs(1);
        config.database.statement_timeout = Duration::from_millis(800);
        config.database.lock_timeout = Duration::from_millis(400);
    });
    start(&mut bench, &handler).await;
    handler.codec.0.hangs.store(2, SeqCst);
    assert_eq!(deliver(&mut bench, 7).await, Outcome::Applied);
    assert_eq!((effects(&mut bench).await, handler.codec.0.asked.load(SeqCst)), ((1, 1), 3));
    assert_eq!(bench.number("SELECT count(*) FROM inbox_parked").await.unwrap(), 0);
}

#[tokio::test]
async fn what_was_fetched_and_is_lost_is_fetched_again() {
    let handler = Write::default();
    let mut bench = bench(&handler).await;
    handler.codec.0.lost.store(3, SeqCst);
    assert_eq!(deliver(&mut bench, 7).await, Outcome::Applied);
    assert_eq!((effects(&mut bench).await, handler.codec.0.asked.load(SeqCst)), ((1, 1), 4));
}

#[tokio::test]
async fn what_it_does_not_know_is_parked_with_what_decode_says() {
    let mut bench = bench(&Write::default()).await;
    let parked = deliver(&mut bench, 200).await;
    assert_eq!(parked.reason(), "undecodable");
    assert!(parked.error().starts_with("the register does not know 200"), "{parked:?}");
}

#[tokio::test]
async fn a_codec_that_panics_when_it_is_asked_ends_no_consumer() {
    let mut bench = bench(&Write::default()).await;
    assert_eq!(deliver(&mut bench, 201).await.reason(), "undecodable");
    bench.close().await.unwrap();
}

#[tokio::test]
async fn a_codec_that_cannot_get_ready_keeps_the_consumer_from_starting() {
    let mut bench = HandlerTest::sqlite().await.unwrap();
    let gap = Upcasts::over(AsJson).edit(1, |_| {}).edit(3, |_| {});
    let error = bench.handle(Routes::default().on_versions(TYPE, gap, Nothing)).await.unwrap_err();
    assert!(error.to_string().contains("add the steps between them"), "{error}");
    // What is only away does not.
    let away = Upcasts::over(AsJson).edit(1, |_| {});
    bench.handle(Routes::default().on_versions(TYPE, away, Nothing)).await.unwrap();
}

/// JSON whose reader is not there at the start.
struct AsJson;

impl<T: serde::de::DeserializeOwned> Decode<T> for AsJson {
    fn decode(&self, payload: &Payload<'_>) -> Result<T, CodecError> {
        outbox_core::Json.decode(payload)
    }

    fn start(&self) -> Preparation<'_> {
        Box::pin(async { Err(CodecError::Unavailable("away".into())) })
    }
}

struct Nothing;

impl Handler<Sqlite> for Nothing {
    type Event = serde_json::Value;

    async fn handle(&self, _: &Event<serde_json::Value>, _: &mut Tx<'_, Sqlite>) -> HandlerResult {
        Ok(())
    }
}
