//! What arrives: each row's record, in the order of its aggregate, and when.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outbox_core::header_names;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use tokio::task::JoinHandle;
use uuid::Uuid;
use xtask::failure::{Explain as _, Failure, Outcome, failure};

use crate::plan::PARTITIONS;
use crate::topic::settings;

/// How long nothing may arrive before the rest is given up; a loop that sleeps has a batch every half second.
const QUIET: Duration = Duration::from_mins(1);
/// Debezium's name of the header with the id.
const DEBEZIUM_ID: &str = "id";

/// A record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    /// When a reader of committed records had it, in seconds since 1970.
    pub(super) read: f64,
    /// When the broker took it, in milliseconds since 1970.
    pub(super) taken_ms: i64,
}

/// A topic that is being read, from its beginning until it has the wanted number of rows.
#[derive(Debug)]
pub(super) struct Reading {
    rows: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    task: JoinHandle<Outcome<Vec<Record>>>,
}

impl Reading {
    pub(super) fn start(kafka: &str, topic: &str, wanted: u64) -> Self {
        let (rows, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&rows), Arc::clone(&ended));
        let (kafka, topic) = (kafka.to_owned(), topic.to_owned());
        let task =
            tokio::task::spawn_blocking(move || read(&kafka, &topic, wanted, (&count, &end)));
        Self { rows, ended, task }
    }

    /// Rows that were read so far; a failure if reading has ended early.
    pub(super) async fn rows(&mut self, wanted: u64) -> Outcome<u64> {
        let rows = self.rows.load(Relaxed);
        if rows < wanted && self.task.is_finished() {
            (&mut self.task).await.explain(|| "the reader".to_owned())??;
        }
        Ok(rows)
    }

    /// All of them.
    pub(super) async fn done(mut self) -> Outcome<Vec<Record>> {
        (&mut self.task).await.explain(|| "the reader".to_owned())?
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
    }
}

fn read(
    kafka: &str,
    topic: &str,
    wanted: u64,
    (rows, ended): (&AtomicU64, &AtomicBool),
) -> Outcome<Vec<Record>> {
    let doing = || format!("cannot read topic {topic}");
    let mut settings = settings(kafka);
    settings.set("group.id", "bench").set("enable.auto.commit", "false");
    settings.set("isolation.level", "read_committed");
    let consumer: BaseConsumer = settings.create().explain(doing)?;
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Beginning).explain(doing)?;
    }
    consumer.assign(&list).explain(doing)?;
    let (mut records, mut seen) = (Vec::new(), Seen::default());
    let mut since = Instant::now();
    while (records.len() as u64) < wanted && !ended.load(Relaxed) {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else {
            if since.elapsed() > QUIET {
                return failure(format!("{} of {wanted} rows are in {topic}", records.len()));
            }
            continue;
        };
        since = Instant::now();
        let read = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let message = message.explain(doing)?;
        let number = number(&message)?;
        seen.see(message.key().unwrap_or_default(), message.partition(), number)?;
        let taken_ms = message.timestamp().to_millis().unwrap_or_default();
        records.push(Record { number, read: read.as_secs_f64(), taken_ms });
        rows.fetch_add(1, Relaxed);
    }
    Ok(records)
}

/// The number of a record's row, which is its id.
fn number(message: &BorrowedMessage<'_>) -> Outcome<u64> {
    let place = || format!("partition {} offset {}", message.partition(), message.offset());
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let mut ids = headers.filter(|one| [header_names::EVENT_ID, DEBEZIUM_ID].contains(&one.key));
    let id = ids.next().and_then(|header| header.value);
    let id = id.ok_or_else(|| Failure(format!("{}: no id", place())))?;
    u64::try_from(Uuid::try_parse_ascii(id).explain(place)?.as_u128()).explain(place)
}

/// The partition and the newest row of each aggregate.
#[derive(Debug, Default)]
struct Seen(HashMap<Vec<u8>, (i32, u64)>);

impl Seen {
    /// A row is above every one of its aggregate before it: so each is there once, and in order.
    fn see(&mut self, key: &[u8], partition: i32, number: u64) -> Outcome {
        let Some((before, last)) = self.0.get_mut(key) else {
            self.0.insert(key.to_vec(), (partition, number));
            return Ok(());
        };
        if *before == partition && *last < number {
            *last = number;
            return Ok(());
        }
        failure(format!(
            "WRONG RESULT: row {number} of aggregate {} in partition {partition} came after row {last} in partition {before}",
            String::from_utf8_lossy(key)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_twice_or_behind_or_elsewhere_is_wrong() {
        let mut seen = Seen::default();
        for (key, partition, number) in [(b"1", 0, 1), (b"2", 1, 2), (b"1", 0, 1_001)] {
            seen.see(key, partition, number).unwrap();
        }
        for (partition, number) in [(0, 1_001), (0, 1), (1, 2_001)] {
            let said = seen.see(b"1", partition, number).unwrap_err().0;
            assert!(said.contains("WRONG RESULT"), "{said}");
        }
    }
}
