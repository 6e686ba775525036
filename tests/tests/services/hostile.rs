//! What whoever may write to a topic can send, record by record. After each the next event that is well has its effect
//! in time, or the partition stands still by a name; and the process takes no more memory than is written here.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use sqlx::SqlitePool;
use tests::{Producer, Record, Stage, Worker, counted, eventually};

use super::commands::{ran, worker};
use super::hostile_records::{USUAL_BYTES, most};

/// A bomb's payload: a topic takes 1 MiB of it compressed, and no codec makes less of it than snappy.
const BOMB_BYTES: usize = 16 << 20;
/// What other codecs make little of.
const LARGE_BOMB_BYTES: usize = 90 << 20;
/// After a record so much time may pass until the next event has its effect.
const NEXT: Duration = Duration::from_secs(30);

/// A record, what it is, and how it is compressed.
struct Hostile {
    what: &'static str,
    codec: &'static str,
    record: Record,
}

/// The records, each with an aggregate of its own.
#[derive(Default)]
struct Records(Vec<Hostile>);

impl Records {
    fn add(&mut self, what: &'static str, make: impl FnOnce(Record) -> Record) {
        self.compressed(what, "none", make);
    }

    fn compressed(
        &mut self,
        what: &'static str,
        codec: &'static str,
        make: impl FnOnce(Record) -> Record,
    ) {
        let record = make(counted(&format!("hostile-{}", self.0.len()), 1));
        self.0.push(Hostile { what, codec, record });
    }

    fn payload(&mut self, what: &'static str, payload: impl Into<Vec<u8>>) {
        self.add(what, |record| record.payload(payload));
    }
}

fn bombs(records: &mut Records) {
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let bomb = |fill: u8| move |record: Record| record.payload(vec![fill; BOMB_BYTES]);
        records.compressed("a payload of zeros", codec, bomb(0));
        records.compressed("a payload that JSON makes sixfold", codec, bomb(1));
        records.compressed("a key", codec, |record| record.key(vec![b'k'; BOMB_BYTES]));
        records.compressed("a header", codec, |record| record.header("x", vec![1; BOMB_BYTES]));
        records.compressed("many headers", codec, |record| {
            (0..50_000).fold(record, |record, _| record.header("xxxxxxxx", vec![1; 64]))
        });
    }
    // Of zstd that would be an unreadable batch, which has tests of its own.
    for codec in ["gzip", "lz4"] {
        records.compressed("a large payload", codec, |it| it.payload(vec![1; LARGE_BOMB_BYTES]));
    }
    for codec in ["gzip", "lz4", "zstd"] {
        records.compressed("one text", codec, |record| {
            let text = "\\u0001".repeat(BOMB_BYTES / 6);
            record.payload(format!("{{\"n\":1,\"x\":\"{text}\"}}"))
        });
    }
}

fn depths(records: &mut Records) {
    let nested =
        |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    records.payload("arrays in arrays", nested("[", "]", 400_000));
    records.payload("arrays that never end", "[".repeat(900_000));
    records.payload("objects in objects", nested("{\"n\":", "}", 100_000));
    records.payload("a field that nobody reads, nested", {
        format!("{{\"x\":{},\"n\":1}}", nested("[", "]", 100_000))
    });
    records.payload("100,000 fields", {
        let fields = (0..70_000).map(|n| format!("\"f{n}\":1,")).collect::<String>();
        format!("{{{fields}\"n\":1}}")
    });
    records.payload("a number of 900,000 digits", format!("{{\"n\":{}}}", "9".repeat(900_000)));
    records
        .payload("an exponent of 900,000 digits", format!("{{\"n\":1e{}}}", "9".repeat(900_000)));
    records.payload("a fraction of 900,000 digits", format!("{{\"n\":1.{}}}", "1".repeat(900_000)));
    records.payload("a surrogate alone", "{\"n\":\"\\ud800\"}");
    records.payload("a NUL in a name", "{\"\\u0000\":1,\"n\":1}");
    records.payload("a NUL in a text", "{\"n\":\"\\u0000\"}");
    records.payload("no UTF-8", b"{\"n\":\"\xff\xfe\xc0\x80\"}".to_vec());
    records.payload("a byte order mark", "\u{feff}{\"n\":1}");
    records.payload("white space alone", " ".repeat(900_000));
    records.payload("an act that nobody knows", "{\"n\":1,\"act\":\"\u{1b}[2J\"}");
}

fn headers(records: &mut Records) {
    records.add("more headers than the client shows", |record| {
        (0..100_001).fold(record, |record, _| record.header("", ""))
    });
    records.add("a name with a NUL", |record| record.header("a\0b", "x"));
    records.add("an empty name", |record| record.header("", "x"));
    records.add("a name of 900,000 bytes", |record| record.header(&"n".repeat(900_000), "x"));
    records.add("the event's id 40,000 times", |record| {
        (0..40_000).fold(record, |record, n: u32| record.header("event_id", n.to_string()))
    });
    records.add("an id without a value behind the id", |record| record.null_header("event_id"));
    records.add("an id of 900,000 bytes", |it| it.header("event_id", "i".repeat(900_000)));
    records.add("an id of SQL", |record| record.header("event_id", "'); DROP TABLE effects; --"));
    records.add("an id that is no text", |record| record.header("event_id", b"\xff".to_vec()));
    records.add("an id of NULs", |record| record.header("event_id", vec![0; 16]));
    records.add("a type of 900,000 bytes", |it| it.header("event_type", "t".repeat(900_000)));
    records.add("a type that clears the screen", |it| it.header("event_type", "\u{1b}[2J\u{9b}2J"));
    records.add("a type that turns the line", |it| it.header("event_type", "\u{202e}detnuoC"));
    records.add("a type with a new line", |it| it.header("event_type", "Counted\nparked 0"));
    records.add("a type that is no text", |it| it.header("event_type", b"\xff".to_vec()));
    records
        .add("an aggregate of 900,000 bytes", |it| it.header("aggregate_id", "a".repeat(900_000)));
    records.add("an aggregate that is no text", |it| it.header("aggregate_id", b"\xff".to_vec()));
    records
        .add("an aggregate of SQL", |it| it.header("aggregate_id", "'; SELECT pg_sleep(99); --"));
    records.add("a version that is none", |it| it.header("aggregate_version", "9".repeat(400)));
    records.add("a time that is none", |it| it.header("occurred_at", "+292278994-08-17T07:12:55Z"));
    records.add("a trace of 900,000 bytes", |it| it.header("traceparent", "0".repeat(900_000)));
    records.add("a trace of zeros", |record| {
        record.header("traceparent", format!("00-{}-{}-00", "0".repeat(32), "0".repeat(16)))
    });
    records.add("a content type that is none", |it| it.header("content_type", "\0/\r\n"));
}

fn keys(records: &mut Records) {
    records.add("a key of 900,000 bytes", |record| record.key("k".repeat(900_000)));
    records.add("a key that is no text", |record| record.key(b"\xff\xfe".to_vec()));
    records.add("a key of NULs", |record| record.key(vec![0; 64]));
    records.add("an empty key", |record| record.key(""));
    records.add("a key that turns the line", |record| record.key("\u{202e}\u{2066}drac"));
    records.add("a time before there were any", |record| record.timestamp(0));
    records.add("nothing at all", |_| Record::default());
    records.add("headers alone", |_| Record::default().header("event_id", "x").null_header("y"));
}

fn all() -> Vec<Hostile> {
    let mut records = Records::default();
    bombs(&mut records);
    depths(&mut records);
    headers(&mut records);
    keys(&mut records);
    records.0
}

/// Sends each, and after each an event of another aggregate, which has to have its effect in time.
async fn play(stage: &Stage, mut process: Worker, effects: impl AsyncFn(&str) -> i64) {
    let bootstrap = stage.topic.bootstrap();
    let producers = ["none", "gzip", "snappy", "lz4", "zstd"]
        .map(|codec| (codec, Producer::compressing(bootstrap, codec)));
    let (mut slowest, mut worst) = (Duration::ZERO, "");
    let hostile = all();
    for (n, Hostile { what, codec, record }) in hostile.iter().enumerate() {
        let (_, producer) = producers.iter().find(|(name, _)| name == codec).unwrap();
        producer.send(stage.topic.name(), std::slice::from_ref(&record.clone().partition(0))).await;
        let good = format!("good-{n}");
        stage.send(&[counted(&good, 1).partition(0)]).await;
        let sent = Instant::now();
        eventually(NEXT, &format!("the event behind: {what} ({codec})"), async || {
            effects(&good).await == 1
        })
        .await;
        assert!(process.running(), "{what} ({codec}): {}", process.log());
        if sent.elapsed() > slowest {
            (slowest, worst) = (sent.elapsed(), what);
        }
    }
    let most = most(process.pid());
    println!(
        "{} records, the slowest {slowest:?} ({worst}), at most {} MB",
        hostile.len(),
        most >> 20
    );
    assert!(most < 3 * LARGE_BOMB_BYTES + USUAL_BYTES, "{} MB", most >> 20);
    process.terminate();
    assert!(process.ended(NEXT).await.success(), "{}", process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_record_stops_a_partition() {
    let stage = Stage::set("hostile", 1).await;
    let process = Worker::spawn(worker(&stage).arg("run"));
    play(&stage, process, async |good| stage.of(good).await.len().try_into().unwrap()).await;
    let there = "SELECT count(*) FROM effects WHERE aggregate LIKE 'good-%'";
    assert_eq!(stage.schema.number(there).await, i64::try_from(all().len()).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_record_stops_a_partition_on_sqlite() {
    let stage = Stage::set("hostile", 1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("effects.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    let table = "CREATE TABLE effects (aggregate TEXT, n INTEGER, event_id TEXT, pid INTEGER)";
    sqlx::query(table).execute(&pool).await.unwrap();
    let on_sqlite = || -> Command {
        let mut command = worker(&stage);
        command.env("INBOX_DATABASE__URL", format!("sqlite:{}", file.display())).env("SQLITE", "1");
        command
    };
    let (code, _, err) = ran(on_sqlite(), "migrate").await;
    assert_eq!(code, Some(0), "{err}");
    let process = Worker::spawn(on_sqlite().arg("run"));
    play(&stage, process, async |good| {
        let there = "SELECT count(*) FROM effects WHERE aggregate = ?1";
        sqlx::query_scalar(there).bind(good).fetch_one(&pool).await.unwrap()
    })
    .await;
}
