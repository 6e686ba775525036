//! Records made to hurt, by whoever may write to a topic: what they cost, and what is told.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, SystemTime},
};

use inbox_consumer::{Ended, Routes, testing::Outcome};
use tests::{Counter, Producer, Record, SOON, Stage, Worker, counted, eventually, limit_memory};

use super::commands::worker;
use super::misbehaving_sqlite::bench;
use super::parked_support::{said, seq, told, typed};

/// What gzip makes 175 kB of.
const BOMB_BYTES: usize = 180 << 20;
/// Addresses of a process.
const MEMORY_KIB: u64 = 2 << 20;
/// A process that has nothing large at hand, as measured, and room for what is beside.
pub(super) const USUAL_BYTES: usize = 128 << 20;
const LONG: Duration = Duration::from_mins(2);

fn routes() -> Routes<sqlx::Postgres> {
    Routes::default().on("Counted", Counter)
}

fn large(aggregate: &str, payload: impl Into<Vec<u8>>) -> Record {
    Record::event(&format!("{aggregate}-large"), "Counted", aggregate, "").payload(payload)
}

/// A process that may have so much memory.
fn little(stage: &Stage) -> Worker {
    let mut limited = limit_memory(worker(stage).arg("run"), MEMORY_KIB);
    Worker::spawn(limited.current_dir(std::env::temp_dir()))
}

/// The most memory that a process has had, in bytes.
pub(super) fn most(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux tells");
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Issue 22, 1 and 2: a row keeps a few kilobytes of each, one process with little memory goes on.
#[tokio::test(flavor = "multi_thread")]
async fn bombs_of_180_mb_are_parked_by_a_process_of_little_memory() {
    let stage = Stage::set("bombs", 1).await;
    let gzip = Producer::compressing(stage.topic.bootstrap(), "gzip");
    stage.send(&[counted("good", 1)]).await;
    for (n, fill) in [(2, 1u8), (3, b'a'), (4, b'"')] {
        let record = large(&format!("bomb{n}"), vec![fill; BOMB_BYTES]);
        gzip.send(stage.topic.name(), &[record]).await;
        stage.send(&[counted("good", n)]).await;
    }
    let mut process = little(&stage);
    let all =
        async || stage.of("good").await == [1, 2, 3, 4] && stage.parked("undecodable").await == 3;
    eventually(LONG, "all are settled", all).await;
    assert!(process.running(), "{}", process.log());
    let most = most(process.pid());
    println!("the most memory of the process: {} MB", most >> 20);
    assert!(most < 3 * BOMB_BYTES + USUAL_BYTES, "{} MB", most >> 20);
    let longest =
        stage.schema.number("SELECT max(octet_length(record))::bigint FROM inbox_parked").await;
    assert!(longest < 16 << 10, "{longest} bytes");

    let shown = said(&stage, &["parked", "show", &seq(&stage, 1).await]).await;
    let bytes = format!("{BOMB_BYTES} of them payload (SHA-256 ");
    assert!(
        shown.contains(&bytes) && shown.contains("a release reads the rest from the log"),
        "{shown}"
    );
    process.terminate();
    assert!(process.ended(LONG).await.success());
}

/// What a release needs is read from the log once more, when the limit is raised; or it says why it cannot be.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_kept_in_part_is_released_from_its_log() {
    let mut stage = Stage::set("again", 1).await;
    stage.config.events.event_bytes_max = 16 << 10;
    let payload = format!("{{\"n\":1,\"x\":\"{}\"}}", "y".repeat(100_000));
    let sent =
        [large("a", payload.clone()), counted("a", 2), large("gone", payload), counted("b", 1)];
    stage.send(&sent).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "all are settled", async || {
        stage.effects().await == 1 && stage.parked("").await == 3
    })
    .await;
    let release = async |offset| {
        typed(&stage, &["parked", "release", &seq(&stage, offset).await, "--wait", "20s"]).await
    };
    let (code, out, err) = release(0).await;
    let why = format!("{out}{err}");
    assert!(code != Some(0) && why.contains("raise `events.event_bytes_max`"), "{why}");
    assert_eq!(running.stop().await, Ended::Shutdown);

    stage.config.events.event_bytes_max = 1 << 20;
    let running = stage.start(routes()).await;
    let release = async |offset| {
        typed(&stage, &["parked", "release", &seq(&stage, offset).await, "--wait", "20s"]).await
    };
    let (code, out, err) = release(0).await;
    assert_eq!(code, Some(0), "{out}{err}");
    eventually(SOON, "both effects", async || stage.of("a").await == [1, 2]).await;
    stage.topic.delete_before(0, 3).await;
    let (code, out, err) = release(2).await;
    let why = format!("{out}{err}");
    assert!(code != Some(0) && why.contains("the log no longer has it"), "{why}");
    let shown = told(&stage, &["parked", "show", &seq(&stage, 2).await, "--json"]).await;
    assert_eq!(shown["event"]["reason"], "undecodable", "{shown}");
    assert_eq!((stage.of("gone").await, stage.parked("").await), (vec![], 1));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Issue 22, 1: the same on SQLite.
#[tokio::test]
async fn a_row_keeps_a_few_kilobytes_of_what_is_too_large_on_sqlite() {
    let mut bench = bench(|config| config.events.event_bytes_max = 64 << 10).await;
    for fill in [1u8, b'a', b'"', 0, 0xff] {
        let record = large(&format!("a{fill}"), vec![fill; 10 << 20]).as_read();
        let outcome = bench.deliver_record(&record).await.unwrap();
        let Outcome::Parked { reason, error, .. } = outcome else { panic!("{fill}: {outcome:?}") };
        assert!(reason == "undecodable" && error.contains("events.event_bytes_max"), "{error}");
    }
    let longest = "SELECT max(octet_length(record)) FROM inbox_parked";
    let longest = bench.number(longest).await.unwrap();
    assert!(longest < 16 << 10, "{longest} bytes");
    bench.close().await.unwrap();
}

/// Issue 22, 4: the client takes 100,000 headers, and shows none of a record with more.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_with_more_than_100_000_headers_is_told() {
    let stage = Stage::set("headers", 1).await;
    let many =
        |aggregate: &str, count| (2..count).fold(counted(aggregate, 1), |it, _| it.header("", ""));
    stage.send(&[many("most", 100_000), many("more", 100_001), counted("good", 1)]).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "all are settled", async || {
        stage.effects().await == 2 && stage.parked("undecodable").await == 1
    })
    .await;
    assert_eq!((stage.of("most").await, stage.of("good").await), (vec![1], vec![1]));
    let shown = said(&stage, &["parked", "show", &seq(&stage, 1).await]).await;
    assert!(shown.contains("there are more than 100,000"), "{shown}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Issue 22, 4: the client shows a name up to its first zero byte, which would be the name of another header.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_whose_name_has_a_zero_byte_is_told() {
    let stage = Stage::set("torn", 1).await;
    let sound = [("event_type", Some("Counted")), ("event_id", Some("torn"))];
    let torn = [sound[0], ("event_id\0x", Some("another")), sound[1]];
    let empty = [("\0", Some("")), sound[0], sound[1]];
    for headers in [&torn[..], &empty[..], &sound[..]] {
        let batch = batch("a", "{\"n\":1}", headers);
        let (address, topic) = (stage.topic.bootstrap().to_owned(), stage.topic.name().to_owned());
        tokio::task::spawn_blocking(move || produce(&address, &topic, &batch)).await.unwrap();
    }
    stage.send(&[counted("good", 1)]).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "all are settled", async || {
        stage.effects().await == 1 && stage.parked("").await == 3
    })
    .await;
    assert_eq!((stage.parked("undecodable").await, stage.parked("follower").await), (2, 1));
    for (offset, words) in [(0, "after `event_id`"), (1, "after ``")] {
        let shown = said(&stage, &["parked", "show", &seq(&stage, offset).await]).await;
        assert!(
            shown.contains("one name contains a zero byte, ") && shown.contains(words),
            "{shown}"
        );
    }
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Issue 22, 1: what the database refuses of one event again and again, while it takes others, is that event's fault:
/// it is parked with less of it.
async fn refused(how: &str) {
    let stage = Stage::set("refused", 1).await;
    stage.schema.run(how).await;
    let poison = Record::event("poison", "Strange", "p", "poison");
    stage.send(&[poison, counted("good", 1)]).await;
    let running = stage.start(routes()).await;
    let mut n = 1;
    eventually(LONG, "it is parked", async || {
        n += 1;
        stage.send(&[counted("good", n)]).await;
        stage.parked("unknown_type").await == 1
    })
    .await;
    eventually(SOON, "every effect", async || stage.effects().await == n).await;
    let shown = said(&stage, &["parked", "show", &seq(&stage, 0).await]).await;
    assert!(shown.contains("so only a part is stored"), "{shown}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_cannot_be_parked_is_parked_with_less_of_it() {
    refused("ALTER TABLE inbox_parked ADD CHECK (record NOT LIKE '%poison%')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_whose_parking_ends_the_connection_is_parked_with_less_of_it() {
    refused(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END'; \
         CREATE TRIGGER die BEFORE INSERT ON inbox_parked FOR EACH ROW WHEN (NEW.record LIKE '%poison%') \
         EXECUTE FUNCTION die()",
    )
    .await;
}

/// Issue 22, 1: a limit on bytes, not on numbers alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_parked_is_limited_in_bytes() {
    let mut stage = Stage::set("bytes", 1).await;
    stage.config.events.event_bytes_max = 8 << 10;
    stage.config.limits.parked_bytes_max = 64 << 10;
    let strange =
        |n: i64| Record::event(&format!("s-{n}"), "Strange", &format!("s{n}"), &"x".repeat(4000));
    stage.send(&(1..=30).map(strange).collect::<Vec<_>>()).await;
    let running = stage.start(routes()).await;
    let stands =
        "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE '%`limits.parked_bytes_max`%'";
    eventually(SOON, "it says why it stands still", async || {
        stage.schema.number(stands).await == 1
    })
    .await;
    let bytes = "SELECT sum(octet_length(record))::bigint FROM inbox_parked";
    let bytes = stage.schema.number(bytes).await;
    assert!(bytes <= 64 << 10, "{bytes} bytes are parked");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A record batch of one record, whose headers may have names that no client sends.
fn batch(key: &str, payload: &str, headers: &[(&str, Option<&str>)]) -> Vec<u8> {
    let text = |out: &mut Vec<u8>, bytes: Option<&[u8]>| {
        varint(out, bytes.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap()));
        out.extend(bytes.unwrap_or_default());
    };
    // Attributes, time and offset since the batch's.
    let mut record = vec![0, 0, 0];
    text(&mut record, Some(key.as_bytes()));
    text(&mut record, Some(payload.as_bytes()));
    varint(&mut record, i64::try_from(headers.len()).unwrap());
    for (name, value) in headers {
        text(&mut record, Some(name.as_bytes()));
        text(&mut record, value.map(str::as_bytes));
    }
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let now = i64::try_from(now).unwrap().to_be_bytes();
    // Attributes, the last offset, two times, no producer: id, epoch, sequence; how many records.
    let mut checked = vec![0; 6];
    checked.extend(now);
    checked.extend(now);
    checked.extend([0xff; 14]);
    checked.extend(1i32.to_be_bytes());
    varint(&mut checked, i64::try_from(record.len()).unwrap());
    checked.extend(record);
    // Offset; length behind it; leader epoch, version 2, checksum.
    let mut all = vec![0; 8];
    all.extend(i32::try_from(checked.len() + 9).unwrap().to_be_bytes());
    all.extend([0xff, 0xff, 0xff, 0xff, 2]);
    all.extend(crc32c(&checked).to_be_bytes());
    all.extend(checked);
    all
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap());
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// Sends a batch to partition 0 as the protocol says (Produce, version 3).
fn produce(address: &str, topic: &str, batch: &[u8]) {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
        out.extend(text.as_bytes());
    };
    // The key of the request, its version, a number for the answer.
    let mut request = vec![0, 0, 0, 3, 0, 0, 0, 7];
    text(&mut request, "raw");
    // No transaction, all acknowledgements, within ten seconds; one topic, one partition.
    request.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0x27, 0x10, 0, 0, 0, 1]);
    text(&mut request, topic);
    request.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    request.extend(i32::try_from(batch.len()).unwrap().to_be_bytes());
    request.extend(batch);
    let mut stream = TcpStream::connect(address.split(',').next().unwrap()).unwrap();
    stream.write_all(&i32::try_from(request.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    // The number, how many topics, the topic, how many partitions, the partition; then the error.
    let error = 4 + 4 + 2 + topic.len() + 4 + 4;
    assert_eq!(answer[error..error + 2], [0, 0], "the broker refuses it: {answer:?}");
}
