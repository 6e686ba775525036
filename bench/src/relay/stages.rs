//! One run of one candidate: on a backlog, or on rows that are appended at a pace.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use xtask::failure::{Outcome, failure};

use super::outbox;
use super::shipped::{Reading, Record};
use super::worker::{Place, Worker};
use crate::candidate::Candidate;
use crate::latency::{blocking, quantiles};
use crate::measure::{Entry, Run, Stage, number_of};
use crate::scenario::Case;
use crate::topic;

/// Rows that Debezium ships before its backlog: a Java program starts slowly, and it needs a place in the log.
const WARM: u64 = 10_000;
/// Rows of a backlog of the loop that sleeps: 200 of a second need no more.
const SLEEPY: u64 = 2_000;
/// Rows that go before those that are appended at a pace.
const FIRST: u64 = 1_000;
/// Nanoseconds between two of them: none.
const AT_ONCE: u64 = 1_000_000_000;
const LOOK: Duration = Duration::from_millis(200);
const LOOK_PACED: Duration = Duration::from_millis(20);
/// A run that takes longer than this has stalled.
const RUN_MAX: Duration = Duration::from_mins(40);
/// Without rows: how long before it is looked at, since a session tells what it did ten seconds later, and for how long.
const CALM: Duration = Duration::from_secs(12);
const IDLE: Duration = Duration::from_secs(10);
/// Of appended rows the first second's do not count.
const SETTLING: f64 = 1.0;
/// Names of the rates of each tenth of a backlog.
const TENTHS: [&str; 10] = [
    "tenth 01/s",
    "tenth 02/s",
    "tenth 03/s",
    "tenth 04/s",
    "tenth 05/s",
    "tenth 06/s",
    "tenth 07/s",
    "tenth 08/s",
    "tenth 09/s",
    "tenth 10/s",
];

pub(super) type Figures = BTreeMap<&'static str, f64>;

/// Where runs take place: Debezium's server writes a log that can be decoded, which costs the others' marks more.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) near: Stage,
    pub(super) logical: Option<Stage>,
    pub(super) folder: PathBuf,
}

/// How rows are appended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) rate: u64,
    pub(super) seconds: u64,
    /// Whether it is also looked at without rows.
    pub(super) idles: bool,
    /// Whether its cost is taken down.
    pub(super) is_costed: bool,
    /// The names of the median and the 99th percentile.
    pub(super) names: [&'static str; 2],
}

/// What was used so far: processor time in seconds, bytes of the log.
#[derive(Clone, Copy, Debug)]
struct Used {
    worker: f64,
    server: f64,
    wal: f64,
}

impl Used {
    async fn by(place: &Place<'_>, worker: Option<&Worker>) -> Outcome<Self> {
        let server = place.stage.server.cpu()?.as_secs_f64();
        let wal = outbox::wal(&place.database).await?;
        Ok(Self { worker: worker.map_or(Ok(0.0), Worker::cpu)?, server, wal })
    }
}

impl Site {
    /// A database and a topic of the run's own. The broker writes down when it took each record.
    async fn place<'p>(&'p self, case: &'p Case, entry: &'p Entry) -> Outcome<Place<'p>> {
        let candidate = entry.candidate;
        let stage = match (&self.logical, candidate) {
            (Some(logical), candidate) if candidate.decodes() => logical,
            _ => &self.near,
        };
        let number = stage.server.next_run();
        let database = stage.server.create(&format!("run_{number}"), "").await?;
        let topic = format!("outbox-{}-{}-{number}", std::process::id(), candidate.name());
        let (kafka, name) = (stage.kafka.clone(), topic.clone());
        let taken = ("message.timestamp.type", "LogAppendTime");
        blocking(move || topic::create_with(&kafka, &name, taken)).await?;
        let place = Place { stage, folder: &self.folder, case, entry, database, topic };
        place.migrate().await?;
        if !candidate.relays() && !candidate.decodes() {
            outbox::make_plain(&place.database).await?;
        }
        Ok(place)
    }

    /// A backlog is shipped.
    pub(super) async fn backlog(&self, case: &Case, entry: &Entry) -> Outcome<Run> {
        let place = self.place(case, entry).await?;
        let (stage, database) = (place.stage, &place.database);
        let (warm, rows) = match entry.candidate {
            candidate if candidate.decodes() => (WARM, case.plan.records),
            Candidate::OutboxSleep => (0, case.plan.records.min(SLEEPY)),
            _ => (0, case.plan.records),
        };
        let mut early = place.early().await?;
        if let Some(worker) = &mut early {
            outbox::fill(database, 0..warm).await?;
            place.arrived(worker, warm).await?;
            worker.pause(database).await?;
        }
        outbox::fill(database, warm..warm + rows).await?;
        database.run("ANALYZE outbox_events").await?;
        // Otherwise the disk is still busy with what was just written.
        stage.server.run("CHECKPOINT").await?;
        let before = Used::by(&place, early.as_ref()).await?;
        let transactions = stage.server.committed(database).await?;
        let mut worker = place.worker(early).await?;
        place.arrived(&mut worker, warm + rows).await?;
        place.marked(&mut worker).await?;
        let after = Used::by(&place, Some(&worker)).await?;
        let rss_mb = worker.memory()?;
        worker.end(database).await?;
        let transactions = stage.server.transactions(database).await? - transactions;
        let dead = outbox::dead(database).await?;
        let records = Reading::start(&stage.kafka, &place.topic, warm + rows).done().await?;
        let rates = Rates::of(records.iter().filter(|record| record.number >= warm));
        // Of one that has shipped fewer rows, as if it had shipped all.
        let all = number_of(case.plan.records) / number_of(rows);
        let per = |figure: f64| figure / number_of(rows);
        let mut more: Figures = TENTHS.into_iter().zip(rates.tenths).collect();
        let slowest = rates.tenths.into_iter().fold(f64::INFINITY, f64::min);
        more.insert("slowest tenth", slowest / rates.all);
        more.insert("WAL B per event", per(after.wal - before.wal));
        more.insert("dead rows per event", per(dead));
        place.end().await?;
        Ok(Run {
            events_per_s: rates.all,
            cpu_s: (after.worker - before.worker) * all,
            server_cpu_s: (after.server - before.server) * all,
            rss_mb,
            transactions: number_of(u64::try_from(transactions).unwrap_or_default()) * all,
            more,
        })
    }

    /// Rows are appended at a pace; how long from the return of COMMIT until a reader has each.
    pub(super) async fn paced(&self, case: &Case, entry: &Entry, pace: Pace) -> Outcome<Figures> {
        let place = self.place(case, entry).await?;
        let (database, url) = (&place.database, &place.database.url);
        let early = place.early().await?;
        let (rows, all) = (pace.rate * pace.seconds, FIRST + pace.rate * pace.seconds);
        let alone = outbox::wal(database).await?;
        outbox::append(url, 0..FIRST, AT_ONCE, place.listens()).await?;
        let alone = (outbox::wal(database).await? - alone) / number_of(FIRST);
        let mut worker = place.worker(early).await?;
        let mut reading = Reading::start(&place.stage.kafka, &place.topic, all);
        place.read(&mut worker, &mut reading, FIRST).await?;
        let mut figures = Figures::new();
        database.run("ANALYZE outbox_events").await?;
        if pace.idles {
            figures.extend(place.idle(&worker).await?);
        }
        let before = Used::by(&place, Some(&worker)).await?;
        let committed = outbox::append(url, FIRST..all, pace.rate, place.listens()).await?;
        place.read(&mut worker, &mut reading, all).await?;
        place.marked(&mut worker).await?;
        let after = Used::by(&place, Some(&worker)).await?;
        if pace.is_costed {
            let per = |figure: f64| figure / number_of(rows);
            figures.insert("relay CPU ms", per(after.worker - before.worker) * 1e3);
            figures.insert("server CPU ms", per(after.server - before.server) * 1e3);
            figures.insert("WAL B at the rate", per(after.wal - before.wal) - alone);
        }
        worker.end(database).await?;
        let waits = waits(&committed, &reading.done().await?);
        figures.extend(pace.names.into_iter().zip(quantiles(waits, [500, 990])));
        place.end().await?;
        Ok(figures)
    }
}

impl Place<'_> {
    /// Whether the candidate listens for notifications.
    fn listens(&self) -> bool {
        self.entry.candidate.relays() || self.entry.candidate == Candidate::LimitOutbox
    }

    /// Debezium's connector has to be there before the rows are.
    async fn early(&self) -> Outcome<Option<Worker>> {
        if self.entry.candidate.decodes() { Worker::start(self).await.map(Some) } else { Ok(None) }
    }

    /// The one that was there before, going on, or a new one.
    async fn worker(&self, early: Option<Worker>) -> Outcome<Worker> {
        let Some(worker) = early else { return Worker::start(self).await };
        worker.resume().await?;
        Ok(worker)
    }

    /// Transactions and processor time without rows.
    async fn idle(&self, worker: &Worker) -> Outcome<Figures> {
        let now = async || -> Outcome<(i64, f64)> {
            Ok((self.stage.server.committed(&self.database).await?, worker.cpu()?))
        };
        tokio::time::sleep(CALM).await;
        let before = now().await?;
        tokio::time::sleep(IDLE).await;
        let after = now().await?;
        let committed = number_of(u64::try_from(after.0 - before.0).unwrap_or_default());
        let seconds = IDLE.as_secs_f64();
        let cpu = (after.1 - before.1) * 1e3;
        Ok(Figures::from([("idle tx/s", committed / seconds), ("idle CPU ms/s", cpu / seconds)]))
    }

    /// Waits until the topic has the wanted number of records. They are not read meanwhile: that takes processor time.
    async fn arrived(&self, worker: &mut Worker, wanted: u64) -> Outcome {
        let began = Instant::now();
        while began.elapsed() < RUN_MAX {
            let (kafka, name) = (self.stage.kafka.clone(), self.topic.clone());
            let records = blocking(move || topic::records(&kafka, &name)).await?;
            if records.is_some_and(|records| records >= wanted) {
                return Ok(());
            }
            worker.looked_at().await?;
            tokio::time::sleep(LOOK).await;
        }
        failure(format!("not all of {wanted} rows were shipped within {} s", RUN_MAX.as_secs()))
    }

    /// Waits until the wanted number of rows was read.
    async fn read(&self, worker: &mut Worker, reading: &mut Reading, wanted: u64) -> Outcome {
        while reading.rows(wanted).await? < wanted {
            worker.looked_at().await?;
            tokio::time::sleep(LOOK_PACED).await;
        }
        Ok(())
    }

    /// Waits until all rows are marked, by those who mark.
    async fn marked(&self, worker: &mut Worker) -> Outcome {
        if self.entry.candidate.decodes() {
            return Ok(());
        }
        let began = Instant::now();
        while !outbox::is_marked(&self.database).await? {
            worker.looked_at().await?;
            if began.elapsed() > RUN_MAX {
                return failure("not all rows were marked");
            }
            tokio::time::sleep(LOOK_PACED).await;
        }
        Ok(())
    }

    /// After a run: its rows are marked, and it leaves nothing behind.
    async fn end(self) -> Outcome {
        let marks = !self.entry.candidate.decodes();
        let unmarked = outbox::unmarked(&self.database).await?;
        if marks && unmarked > 0 {
            return failure(format!("WRONG RESULT: {unmarked} rows are not marked"));
        }
        self.stage.server.remove(self.database).await?;
        let (kafka, name) = (self.stage.kafka.clone(), self.topic);
        blocking(move || topic::delete(&kafka, &name)).await
    }
}

/// Rows of a second, by the broker's clock: all, and each tenth.
#[derive(Debug)]
struct Rates {
    all: f64,
    tenths: [f64; 10],
}

impl Rates {
    fn of<'r>(records: impl Iterator<Item = &'r Record>) -> Self {
        let mut times: Vec<i64> = records.map(|record| record.taken_ms).collect();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        let rate = |from: usize, to: usize| {
            let took = times[to].saturating_sub(times[from]).max(1);
            number_of((to - from) as u64) * 1e3 / number_of(took.unsigned_abs())
        };
        let tenths = std::array::from_fn(|tenth| rate(last * tenth / 10, last * (tenth + 1) / 10));
        Self { all: rate(0, last), tenths }
    }
}

/// How many milliseconds each row took from its commit, those of the beginning left out.
fn waits(committed: &[(u64, f64)], records: &[Record]) -> Vec<f64> {
    let read: HashMap<u64, f64> = records.iter().map(|one| (one.number, one.read)).collect();
    let first = committed.first().map_or(0.0, |(_, at)| *at) + SETTLING;
    let counted = committed.iter().filter(|(_, at)| *at >= first);
    counted.filter_map(|(number, at)| Some((read.get(number)? - at) * 1e3)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_all_rows_and_of_each_tenth() {
        // A row each millisecond, in the last tenth every two.
        let taken = (0..=1_000).map(|number| number + (number - 900).max(0));
        let records: Vec<Record> =
            taken.map(|taken_ms| Record { number: 0, read: 0.0, taken_ms }).collect();
        let rates = Rates::of(records.iter());
        assert!((rates.all - 1e6 / 1_100.0).abs() < 1e-6, "{rates:?}");
        assert!((rates.tenths[0] - 1e3).abs() < 1e-6, "{rates:?}");
        assert!((rates.tenths[9] - 5e2).abs() < 1e-6, "{rates:?}");
    }

    #[test]
    fn a_wait_is_from_the_commit_to_the_reader() {
        let record = |number, read| Record { number, read, taken_ms: 0 };
        let records = [record(7, 12.5), record(6, 11.0), record(8, 12.75)];
        let waits = waits(&[(6, 10.0), (7, 12.0), (8, 12.5)], &records);
        assert_eq!(waits.len(), 2, "the first second is left out: {waits:?}");
        assert!((waits[0] - 500.0).abs() < 1e-6 && (waits[1] - 250.0).abs() < 1e-6, "{waits:?}");
    }
}
