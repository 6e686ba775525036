//! Records that misbehave, case by case: which are events, which are parked, and what is told. The same table on
//! PostgreSQL behind Kafka and on SQLite.

use inbox_consumer::{Ended, Event, Handler, HandlerResult, Routes, Tx, testing::Outcome};
use serde::Deserialize;
use sqlx::Postgres;
use tests::{Counter, Ending, Producer, Record, SOON, Services, Stage, Topic, counted, eventually};

use super::misbehaving_sqlite::bench;

/// What becomes of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Its effect is there.
    Done,
    /// It is the copy of another one, and has no effect.
    Again,
    /// It is parked for this reason, and its error has these words.
    Parked(&'static str, &'static str),
}
use Fate::{Again, Done, Parked};

const fn unread(words: &'static str) -> Fate {
    Parked("undecodable", words)
}

struct Input {
    what: &'static str,
    record: Record,
    /// The number in its effect.
    n: i64,
    fate: Fate,
}

/// The largest record that is taken here.
const BYTES_MAX: usize = 64 * 1024;

/// A sound event with such a number.
fn sound(n: i64) -> Record {
    with(n, format!("{{\"n\":{n}}}"))
}

/// A sound event with this payload.
fn with(n: i64, payload: impl Into<Vec<u8>>) -> Record {
    Record::event(&format!("id-{n}"), "Counted", &format!("in-{n}"), "").payload(payload)
}

/// One whose handler keeps a text.
fn noted(n: i64, text: &str) -> Record {
    Record::event(&format!("id-{n}"), "Noted", &format!("in-{n}"), "")
        .payload(format!("{{\"n\":{n},\"text\":{text}}}"))
}

/// A record with this id.
fn identified(n: i64, id: impl Into<Vec<u8>>) -> Record {
    typed(n, "Counted").header("event_id", id)
}

/// A record of this type, without an id.
fn typed(n: i64, event_type: impl Into<Vec<u8>>) -> Record {
    let record = Record::default().key(format!("in-{n}")).payload(format!("{{\"n\":{n}}}"));
    record.header("event_type", event_type)
}

/// A record with this key.
fn keyed(n: i64, key: impl Into<Vec<u8>>) -> Record {
    sound(n).key(key)
}

fn ids(add: &mut impl FnMut(&'static str, Fate, &dyn Fn(i64) -> Record)) {
    let none = unread("the record has no event id");
    add("no id", none, &|n| typed(n, "Counted"));
    add("an empty id", none, &|n| identified(n, ""));
    add("a null id", none, &|n| typed(n, "Counted").null_header("event_id"));
    add("an id that is no text", unread("is not UTF-8 text"), &|n| {
        identified(n, b"\xff\xfe".to_vec())
    });
    add("an id of 1,025 bytes", unread("is 1025 bytes long, more than the allowed 1024"), &|n| {
        identified(n, "x".repeat(1025))
    });
    add("an id of 1,024 bytes", Done, &|n| identified(n, "x".repeat(1024)));
    add("an id with a NUL", Done, &|n| identified(n, b"a\0b".to_vec()));
    add("an id that is SQL", Done, &|n| identified(n, "'; DROP TABLE effects; --"));
    add("two ids: the last one counts", Done, &|n| {
        identified(n, "first").header("event_id", "last")
    });
    add("a UUID", Done, &|n| identified(n, "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11").key("in-u"));
    add("another event under the same UUID in capitals", Parked("mismatch", "reuses ids"), &|n| {
        identified(n, "{0190A5C8-7C2E-7D64-9B6E-0C9F5D9B2A11}").key("in-u2")
    });
}

fn types(add: &mut impl FnMut(&'static str, Fate, &dyn Fn(i64) -> Record)) {
    let none = unread("the record has no event type");
    let id = |n: i64, record: Record| record.header("event_id", format!("id-{n}"));
    add("no type", none, &|n| id(n, Record::default().key("t").payload("{}")));
    add("an empty type", none, &|n| id(n, typed(n, "")));
    add("an unknown type", Parked("unknown_type", "no handler is registered"), &|n| {
        id(n, typed(n, "Strange"))
    });
    add("a type in capitals", Parked("unknown_type", "`COUNTED`"), &|n| id(n, typed(n, "COUNTED")));
    add("a type of 256 bytes", unread("is 256 bytes long, more than the allowed 255"), &|n| {
        id(n, typed(n, "x".repeat(256)))
    });
    add("a type that is no text", unread("is not UTF-8 text"), &|n| {
        id(n, typed(n, b"\xf0".to_vec()))
    });
    add("a type with a NUL", unread("contains a NUL character"), &|n| {
        id(n, typed(n, b"Counted\0".to_vec()))
    });
}

fn payloads(add: &mut impl FnMut(&'static str, Fate, &dyn Fn(i64) -> Record)) {
    let (no_json, unfit) = (unread("the payload is not JSON"), unread("does not fit"));
    add("a tombstone", unread("tombstone"), &|n| {
        Record::default()
            .key(format!("in-{n}"))
            .header("event_id", format!("id-{n}"))
            .header("event_type", "Counted")
    });
    add("an empty payload", no_json, &|n| with(n, ""));
    add("white space", no_json, &|n| with(n, " \n"));
    add("no JSON", no_json, &|n| with(n, "{not json"));
    add("JSON that is cut off", no_json, &|n| with(n, format!("{{\"n\":{n}")));
    add("JSON with more behind it", no_json, &|n| with(n, format!("{{\"n\":{n}}} {{}}")));
    add("a byte order mark", no_json, &|n| with(n, format!("\u{feff}{{\"n\":{n}}}")));
    add("UTF-16", no_json, &|n| {
        with(
            n,
            format!("{{\"n\":{n}}}").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
        )
    });
    add("bytes of gzip", no_json, &|n| with(n, b"\x1f\x8b\x08\0\0\0\0\0".to_vec()));
    add("NaN", no_json, &|n| with(n, "{\"n\":NaN}"));
    add("another JSON type", unfit, &|n| with(n, "{\"n\":\"s3cret\"}"));
    add("null instead of an object", unfit, &|n| with(n, "null"));
    add("a missing field", unfit, &|n| with(n, "{}"));
    add("a field twice", unfit, &|n| with(n, format!("{{\"n\":{n},\"n\":{n}}}")));
    add("a number of 20 digits", unfit, &|n| with(n, "{\"n\":99999999999999999999}"));
    add("a number of 400 digits", no_json, &|n| with(n, format!("{{\"n\":{}}}", "9".repeat(400))));
    add("a number with a fraction", unfit, &|n| with(n, "{\"n\":1.5}"));
    add("fields that nobody asks for", Done, &|n| with(n, format!("{{\"n\":{n},\"x\":[{{}}]}}")));
    add("10,000 brackets where nobody looks", Done, &|n| {
        with(n, format!("{{\"n\":{n},\"x\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000)))
    });
    add("10,000 brackets where the handler looks", unread("recursion limit exceeded"), &|n| {
        noted(n, &format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)))
    });
    add("half a surrogate", no_json, &|n| noted(n, "\"\\ud800\""));
    add("emoji, combining marks, right-to-left", Done, &|n| {
        noted(n, "\"\u{1f9fe} e\u{301} \u{202e}x\"")
    });
    add("control characters in a text", Done, &|n| noted(n, "\"\\u0007\\u001b\\u007f\""));
    add("a raw control character in a text", no_json, &|n| noted(n, "\"\u{7}\""));
}

fn keys(add: &mut impl FnMut(&'static str, Fate, &dyn Fn(i64) -> Record)) {
    add("no key", Done, &|n| {
        Record::default()
            .header("event_id", format!("id-{n}"))
            .header("event_type", "Counted")
            .payload(format!("{{\"n\":{n}}}"))
    });
    add("an empty key", unread("the record names no aggregate"), &|n| keyed(n, ""));
    add("a key that is no text", unread("`key:hex` reads keys that are not text"), &|n| {
        keyed(n, b"\xff\xfe".to_vec())
    });
    add("a key of 1,025 bytes", unread("is 1025 bytes long"), &|n| keyed(n, "x".repeat(1025)));
    add("a key with a NUL", unread("contains a NUL character"), &|n| keyed(n, b"a\0b".to_vec()));
    add("a key with a line break and an escape", Done, &|n| keyed(n, "a\n\u{1b}[31m"));
    add("a key of umlauts", Done, &|n| keyed(n, "Bestellung-\u{e4}\u{f6}\u{fc}"));
    add("a header for the aggregate beside the key", Done, &|n| {
        keyed(n, b"\xff".to_vec()).header("aggregate_id", format!("in-{n}"))
    });
}

fn headers(add: &mut impl FnMut(&'static str, Fate, &dyn Fn(i64) -> Record)) {
    add("a record of no bytes", unread("the record has no event id"), &|_| Record::default());
    add("bytes in other headers", Done, &|n| {
        sound(n).header("x", b"\0\xff".to_vec()).header("", "x").null_header("y")
    });
    add("2,000 headers", Done, &|n| (0..2000).fold(sound(n), |record, _| record.header("h", "v")));
    add("a trace that is none", Done, &|n| {
        sound(n).header("traceparent", "00-zz").null_header("tracestate")
    });
    let version = unread("is not an integer within range");
    add("a version that is no number", version, &|n| sound(n).header("aggregate_version", "two"));
    add("a schema's version that is too large", version, &|n| {
        sound(n).header("schema_version", "99999999999")
    });
    add("a time that is none", unread("neither milliseconds since 1970"), &|n| {
        sound(n).header("occurred_at", "yesterday")
    });
    add("a time before 1970", Done, &|n| sound(n).header("occurred_at", "-86400000"));
    add("a record's time in 1970", Done, &|n| sound(n).timestamp(1));
    add("a record's time in 100 years", Done, &|n| sound(n).timestamp(4_944_672_000_000));
    add("a record that is too large", unread("more than the allowed 65536"), &|n| {
        with(n, " ".repeat(BYTES_MAX))
    });
}

fn copies(add: &mut impl FnMut(&'static str, Fate, &dyn Fn(i64) -> Record)) {
    let reused = Parked("mismatch", "reuses ids");
    let of = |payload: &str| Record::event("again", "Counted", "in-again", payload);
    add("an event that others have the id of", Done, &|n| {
        of(&format!("{{\"n\":{n},\"by\":1}}")).header("x", "1")
    });
    add("a copy with other headers and another time", Again, &|n| {
        of(&format!("{{\"n\":{},\"by\":1}}", n - 1)).header("x", "2").timestamp(7)
    });
    add("the same id, another payload", reused, &|_| of("{\"n\":-1}"));
    add("the same id, another type", reused, &|n| {
        Record::event("again", "Noted", "in-again", &format!("{{\"n\":{},\"by\":1}}", n - 3))
    });
    add("the same id, another aggregate", reused, &|n| {
        of(&format!("{{\"n\":{},\"by\":1}}", n - 4)).key("in-other")
    });
}

/// All of them, each with a number of its own.
fn inputs() -> Vec<Input> {
    let mut all = Vec::new();
    let mut add = |what, fate, record: &dyn Fn(i64) -> Record| {
        let n = i64::try_from(all.len() + 1).unwrap();
        all.push(Input { what, record: record(n), n, fate });
    };
    ids(&mut add);
    types(&mut add);
    payloads(&mut add);
    keys(&mut add);
    headers(&mut add);
    copies(&mut add);
    all
}

/// A payload with a text of any kind.
#[derive(Deserialize)]
pub struct Note {
    /// The event's number.
    pub n: i64,
    /// Where the handler looks.
    pub text: serde_json::Value,
}

struct Notes;

impl Handler<Postgres> for Notes {
    type Event = Note;

    async fn handle(&self, event: &Event<Note>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, '', 0)")
            .bind(event.payload.text.as_str())
            .bind(event.payload.n)
            .execute(tx)
            .await?;
        Ok(())
    }
}

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter).on("Noted", Notes)
}

/// What is wrong with a fate.
fn differs(input: &Input, found: &Outcome) -> Option<String> {
    let right = match (input.fate, found) {
        (Done, Outcome::Applied) | (Again, Outcome::Duplicate) => true,
        (Parked(why, words), Outcome::Parked { reason, error, .. }) => {
            why == reason && error.contains(words) && !error.contains("s3cret")
        }
        _ => false,
    };
    (!right).then(|| format!("{}: {found:?} instead of {:?}", input.what, input.fate))
}

async fn watermark(stage: &Stage) -> i64 {
    stage.schema.number("SELECT coalesce(max(watermark), 0) FROM inbox_partitions").await
}

/// What became of the record at an offset.
async fn became(stage: &Stage, input: &Input, offset: i64) -> Outcome {
    let parked: Option<(String, String)> = sqlx::query_as(
        "SELECT reason, record::jsonb ->> 'error' FROM inbox_parked WHERE \"offset\" = $1",
    )
    .bind(offset)
    .fetch_optional(stage.schema.pool())
    .await
    .unwrap();
    if let Some((reason, error)) = parked {
        return Outcome::Parked { reason, error, attempts: 0 };
    }
    let effects = format!("SELECT count(*) FROM effects WHERE n = {}", input.n);
    match stage.schema.number(&effects).await {
        0 => Outcome::Duplicate,
        1 => Outcome::Applied,
        more => panic!("{}: {more} effects", input.what),
    }
}

/// Every record is an event or is parked with a sentence; the good ones around it are applied in their order.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_event_is_parked_and_told_and_holds_nobody_up() {
    let services = Services::from_env();
    let settings = [("message.timestamp.after.max.ms", "9223372036854775807")];
    let topic = Topic::create(&services.kafka, "inputs", 1, &settings).await;
    let mut stage = Stage::with(topic, services.schema().await).await;
    stage.config.events.event_bytes_max = BYTES_MAX;
    // The first of those that share an id is the first in the log.
    stage.config.lanes.count = 1;
    let inputs = inputs();
    let mut records = Vec::new();
    for input in &inputs {
        let good = Record::event(&format!("good-{}", input.n), "Counted", "good", "");
        let payload = format!("{{\"n\":{}}}", 1000 + input.n);
        records.extend([input.record.clone(), good.payload(payload)]);
    }
    let sent = stage.send(&records).await;
    let running = stage.start(routes()).await;
    let end = i64::try_from(records.len()).unwrap();
    eventually(SOON, "all are settled", async || watermark(&stage).await == end).await;
    let mut wrong = Vec::new();
    for (input, (_, offset)) in inputs.iter().zip(sent.iter().step_by(2)) {
        wrong.extend(differs(input, &became(&stage, input, *offset).await));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    let good: Vec<i64> = inputs.iter().map(|input| 1000 + input.n).collect();
    assert_eq!(stage.of("good").await, good);
    assert_eq!(running.counters.read().failures, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The same on SQLite.
#[tokio::test]
async fn what_is_no_event_is_parked_and_told_on_sqlite() {
    let mut bench = bench(|config| config.events.event_bytes_max = BYTES_MAX).await;
    let mut wrong = Vec::new();
    for input in inputs() {
        let outcome = bench.deliver_record(&input.record.as_read()).await.unwrap();
        wrong.extend(differs(&input, &outcome));
        let good = counted("good", 1000 + input.n).as_read();
        assert_eq!(bench.deliver_record(&good).await.unwrap(), Outcome::Applied, "{}", input.what);
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    bench.close().await.unwrap();
}

/// A text that PostgreSQL cannot keep is the failure of its event, and no other's.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_with_a_nul_is_the_failure_of_its_event() {
    let mut stage = Stage::set("inputs", 1).await;
    stage.config.retry.attempts_max = 2;
    stage.send(&[noted(1, "\"a\\u0000b\""), counted("good", 1)]).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "the good one", async || stage.of("good").await == [1]).await;
    eventually(SOON, "it is parked", async || stage.parked("exhausted").await == 1).await;
    let told = "SELECT count(*) FROM inbox_parked WHERE record LIKE '%invalid byte sequence for encoding%'";
    assert_eq!(stage.schema.number(told).await, 1);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Batches in any compression, in one transaction, and in one that is aborted.
#[tokio::test(flavor = "multi_thread")]
async fn batches_of_every_form_are_read() {
    let stage = Stage::set("batches", 1).await;
    let (bootstrap, name) = (stage.topic.bootstrap(), stage.topic.name());
    let running = stage.start(routes()).await;
    let mut first = 1;
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let producer = Producer::with(bootstrap, "compression.type", compression);
        let records: Vec<Record> = (first..first + 50).map(|n| counted("a", n)).collect();
        producer.send(name, &records).await;
        first += 50;
    }
    let in_transaction = [counted("a", first), counted("a", first + 1)];
    Producer::send_in_transaction(bootstrap, name, &in_transaction, Ending::Commit).await;
    let given_up = [counted("lost", 1)];
    Producer::send_in_transaction(bootstrap, name, &given_up, Ending::Abort).await;
    stage.send(&[counted("a", first + 2)]).await;
    let all: Vec<i64> = (1..=first + 2).collect();
    eventually(SOON, "all", async || stage.of("a").await.len() >= all.len()).await;
    assert_eq!((stage.of("a").await, stage.of("lost").await), (all, vec![]));
    assert_eq!(running.stop().await, Ended::Shutdown);
}
