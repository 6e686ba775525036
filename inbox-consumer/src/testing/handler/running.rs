//! The consumer under test: the real one, with a log in memory in Kafka's place.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_conformance::Probe;
use inbox_engine::internal::Offset;
use inbox_handler::internal::RouteLookup;
use inbox_runtime::internal::{DriverEnd, Moment, Work};
use inbox_store::internal::port::{PruneCursor, Sessions};
use outbox_core::{Reader, Record};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    log::{Log, TOPIC},
    outcome::{Outcome, TestError},
};
use crate::{
    Consumer, Routes,
    config::{Config, Unwanted},
};

/// How long an event may take until it is settled.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long after its event a crash may come.
const CRASH_WITHIN: Duration = Duration::from_secs(2);
/// What is older is pruned; rows are made that old.
const RETENTION: Duration = Duration::from_hours(24);

/// A consumer that runs in a task.
pub(super) struct Running<DB: Probe> {
    log: Arc<Log>,
    work: Arc<Work<DB>>,
    reader: Reader,
    config: Config,
    stop: oneshot::Sender<()>,
    task: JoinHandle<DriverEnd>,
}

impl<DB: Probe> Running<DB> {
    /// On a log of these records of each partition.
    pub(super) async fn start(
        config: Config,
        settings: DB::Settings,
        routes: Routes<DB>,
        records: Vec<Vec<Record>>,
    ) -> Result<Self, TestError> {
        let built =
            Box::pin(Consumer::builder(config.clone(), routes).build_on(Ok(settings))).await;
        let consumer = built.map_err(TestError::new)?;
        let reader = config.reader().map_err(TestError::new)?;
        let (log, mut events) = Log::new(records);
        let (mut driver, work, control) = consumer.driver(Arc::clone(&log) as _);
        let (stop, asked) = oneshot::channel();
        let sessions = Arc::clone(&work);
        let task = tokio::spawn(async move {
            let end = driver.run(&mut events, async { _ = asked.await }).await;
            control.wait_until_idle().await;
            sessions.sessions.close().await;
            control.sessions.close().await;
            end
        });
        log.assign();
        Ok(Self { log, work, reader, config, stop, task })
    }

    /// Delivers records together and waits until they are settled.
    pub(super) async fn deliver(
        &mut self,
        session: &mut DB::Connection,
        records: Vec<Record>,
    ) -> Result<Vec<Outcome>, TestError> {
        let offsets = self.log.append(records.iter().cloned());
        if let Some(last) = offsets.last() {
            self.settled(session, *last).await?;
        }
        let mut outcomes = Vec::with_capacity(offsets.len());
        for (record, offset) in records.iter().zip(offsets) {
            let outcome = self.seen(session, offset).await?;
            let ignored = outcome == Outcome::Duplicate && self.ignores(record, offset);
            outcomes.push(if ignored { Outcome::Ignored } else { outcome });
        }
        Ok(outcomes)
    }

    /// Waits until the only lane has passed an offset.
    async fn settled(
        &mut self,
        session: &mut DB::Connection,
        offset: i64,
    ) -> Result<(), TestError> {
        let began = Instant::now();
        loop {
            let passed = "SELECT coalesce(max(last_offset), -1) FROM inbox_lanes";
            let passed = DB::number(session, passed).await;
            if passed.map_err(|error| TestError::of("looking at the lanes failed", error))?
                >= offset
            {
                return Ok(());
            }
            if self.task.is_finished() {
                return Err(self.ended().await);
            }
            if began.elapsed() > SETTLED_WITHIN {
                return Err(self.stuck(session).await);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until everything in the log is settled and committed, and ends the consumer in order.
    pub(super) async fn read_up(mut self) -> Result<(), TestError> {
        let log = Arc::clone(&self.log);
        tokio::select! {
            () = log.read_up() => self.stop().await,
            error = self.ended() => Err(error),
        }
    }

    async fn ended(&mut self) -> TestError {
        match (&mut self.task).await {
            Ok(end) => TestError::new(format!("the consumer under test has ended: {end:?}")),
            Err(error) => TestError::of("the consumer under test has ended", error),
        }
    }

    async fn stuck(&self, session: &mut DB::Connection) -> TestError {
        let why = DB::text(session, "SELECT max(standstill) FROM inbox_partitions").await;
        let why = why.ok().flatten().unwrap_or_else(|| {
            "it gives no reason; an outage of the database, or a conflict that comes again and again, is \
             in the log"
                .into()
        });
        TestError::new(format!("the event was not settled within {SETTLED_WITHIN:?}: {why}"))
    }

    /// What the database says of the delivery at an offset.
    pub(super) async fn seen(
        &self,
        session: &mut DB::Connection,
        offset: i64,
    ) -> Result<Outcome, TestError> {
        let looked = self.look(session, offset).await;
        looked.map_err(|error| TestError::of("looking at the inbox failed", error))
    }

    async fn look(
        &self,
        session: &mut DB::Connection,
        offset: i64,
    ) -> Result<Outcome, sqlx::Error> {
        // All in one look: an event that waits for a version may be released at any moment.
        let parked = format!(
            "SELECT reason || ' ' || CAST(attempts AS text) || ' ' || coalesce(CAST(record AS text), '') FROM inbox_parked \
             WHERE \"offset\" = {offset} ORDER BY leader_epoch DESC LIMIT 1"
        );
        if let Some(row) = DB::text(session, &parked).await? {
            let mut parts = row.splitn(3, ' ').map(str::to_owned);
            let [reason, attempts, record] = [(); 3].map(|()| parts.next().unwrap_or_default());
            let attempts = attempts.parse().unwrap_or_default();
            return Ok(Outcome::Parked { reason, error: last_error(&record), attempts });
        }
        let claimed =
            format!("SELECT count(*) FROM inbox_events WHERE \"offset\" = {offset} AND NOT parked");
        Ok(match DB::number(session, &claimed).await? {
            0 => Outcome::Duplicate,
            _ => Outcome::Applied,
        })
    }

    fn ignores(&self, record: &Record, offset: i64) -> bool {
        let event = match self.reader.read(TOPIC, 0, offset, record) {
            Ok(event) => event,
            Err(outbox_core::ReadError::NoEvent { .. }) => return true,
            Err(_) => return self.config.events.undecodable == Unwanted::Ignore,
        };
        match self.work.routes.lookup(&event.event_type) {
            RouteLookup::Ignored => true,
            RouteLookup::Unknown => self.config.events.unknown_type == Unwanted::Ignore,
            RouteLookup::Route(_) => false,
        }
    }

    pub(super) fn end(&self) -> i64 {
        self.log.end()
    }

    /// The transaction of the next event crashes.
    pub(super) fn crash(&self, moment: Moment) {
        self.work.state.crash.arm(moment, Offset(self.end()));
    }

    /// Whether the crash has still to come; it comes no more. The database shows a COMMIT before the
    /// transaction passes the moment behind it: it is given its time.
    pub(super) async fn crash_is_missing(&self) -> bool {
        let came = async {
            while self.work.state.crash.armed() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        // Whether it came in time is what is asked next.
        let _ = tokio::time::timeout(CRASH_WITHIN, came).await;
        self.work.state.crash.disarm()
    }

    /// Takes the partition away, in order.
    pub(super) async fn revoke(&self) -> Result<(), TestError> {
        tokio::time::timeout(SETTLED_WITHIN, self.log.revoke())
            .await
            .map_err(|_| TestError::new("the consumer under test did not let its partition go"))
    }

    /// Gives it back; `from` is where the group's offset is.
    pub(super) fn assign(&self, from: Option<i64>) {
        if let Some(from) = from {
            self.log.reset(from);
        }
        self.log.assign();
    }

    /// Makes every settled row old, and removes it as the runtime does.
    pub(super) async fn prune(
        &self,
        session: &mut DB::Connection,
        settings: &DB::Settings,
    ) -> Result<(), TestError> {
        let older =
            format!("UPDATE inbox_events SET processed_at = {} WHERE NOT parked", DB::LONG_AGO);
        let failed = |error: sqlx::Error| TestError::of("the retention could not pass", error);
        DB::run(session, &older).await.map_err(failed)?;
        let mut conn = <DB as Sessions>::open(settings).await.map_err(TestError::new)?;
        let mut cursor = PruneCursor::default();
        let pruned = loop {
            match DB::prune_step(&mut conn, &self.config.consumer.name, RETENTION, cursor).await {
                Ok(step) => match step.next {
                    Some(next) => cursor = next,
                    None => break Ok(()),
                },
                Err(error) => break Err(failed(error)),
            }
        };
        DB::close_hard(conn).await;
        pruned
    }

    /// Ends the consumer in order.
    pub(super) async fn stop(self) -> Result<(), TestError> {
        let _ = self.stop.send(());
        match self.task.await {
            Ok(DriverEnd::Shutdown) => Ok(()),
            Ok(end) => Err(TestError::new(format!("the consumer under test ended badly: {end:?}"))),
            Err(error) => Err(TestError::of("the consumer under test ended badly", error)),
        }
    }

    pub(super) fn abort(self) {
        self.task.abort();
    }
}

/// The error that a parked record tells.
fn last_error(record: &str) -> String {
    let record: serde_json::Value = serde_json::from_str(record).unwrap_or_default();
    record["error"].as_str().unwrap_or_default().to_owned()
}
