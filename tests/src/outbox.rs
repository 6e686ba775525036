//! An outbox for tests: a schema with its tables, a topic, and a configuration with short times.

use std::{process::Command, sync::Arc, time::Duration};

use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::{
    Ended, Relay, RelayBuilder,
    config::{Config, Http},
    telemetry::{Counters, Readings},
};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{Arrival, Executable, SOON, Schema, Services, Topic, Worker, arrivals, eventually};

/// Keeps the most attempts of each row: `outbox_parked` has them only until the row is sent.
const RECORD_ATTEMPTS: &str = "
    CREATE TABLE recorded_attempts (seq bigint PRIMARY KEY, aggregate_id text NOT NULL, attempts integer NOT NULL);
    CREATE FUNCTION record_attempts() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        INSERT INTO recorded_attempts AS r VALUES (NEW.seq, NEW.aggregate_id, NEW.attempts)
        ON CONFLICT (seq) DO UPDATE SET attempts = greatest(r.attempts, excluded.attempts);
        RETURN NULL;
    END $$;
    CREATE TRIGGER record_attempts AFTER INSERT OR UPDATE ON outbox_parked
        FOR EACH ROW WHEN (NEW.attempts > 0) EXECUTE FUNCTION record_attempts()";

/// An INSERT of a row that is parked, of the aggregate `b`. One that goes by itself is due in an hour.
pub fn parked_row(state: &str, destination: &str, error: &str) -> String {
    format!(
        "WITH row AS (INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, parked_at)
            SELECT gen_random_uuid(), 'Counted', 'Account', 'b', now()
            RETURNING seq, aggregate_type, aggregate_id)
         INSERT INTO outbox_parked (seq, aggregate_type, aggregate_id, state, destination, error, due_at)
         SELECT seq, aggregate_type, aggregate_id, '{state}', '{destination}', '{error}',
            CASE WHEN '{state}' NOT IN ('behind', 'parked') THEN now() + interval '1 hour' END FROM row"
    )
}

/// Everything a relay needs, of its own.
#[derive(Debug)]
pub struct Outbox {
    /// Where its events go.
    pub topic: Topic,
    /// The schema with the outbox tables.
    pub schema: Schema,
    /// A configuration with short times; change it before [`Outbox::start`].
    pub config: Config,
}

impl Outbox {
    /// A topic with so many partitions, and a migrated schema.
    pub async fn set(stem: &str, partitions: i32) -> Self {
        let services = Services::from_env();
        Self::with(services.topic(stem, partitions).await, services.schema().await).await
    }

    /// The same around a topic and a schema that are there already.
    pub async fn with(topic: Topic, schema: Schema) -> Self {
        let mut config = Config::new(topic.bootstrap(), schema.url());
        topic.name().clone_into(&mut config.kafka.topic);
        config.relay.lease = Duration::from_secs(2);
        config.relay.shared = false;
        config.database.statement_timeout = Duration::from_secs(5);
        config.limits.outage_delay_max = Duration::from_millis(500);
        config.http = Http::off();
        config.kafka.raw.set("reconnect.backoff.max.ms", "200");
        outbox_relay::migrate(&config).await.expect("migrating the outbox");
        Self { topic, schema, config }
    }

    /// Appends the events `from..=to` of an aggregate, each in a transaction of its own.
    pub async fn append(&self, aggregate: &str, from: i64, to: i64) {
        for n in from..=to {
            let mut tx = self.schema.pool().begin().await.expect("a transaction");
            outbox_core::append(&mut *tx, &counted(aggregate, n)).await.expect("an event");
            tx.commit().await.expect("a commit");
        }
    }

    /// Appends many at once.
    pub async fn append_all(&self, events: &[OutboxEvent]) {
        let mut tx = self.schema.pool().begin().await.expect("a transaction");
        outbox_core::append_all(&mut *tx, events).await.expect("events");
        tx.commit().await.expect("a commit");
    }

    /// Starts a relay in this process.
    pub async fn start(&self) -> RunningRelay {
        RunningRelay::start(self.config.clone()).await
    }

    /// Starts a relay in this process, with destinations of its own.
    pub async fn start_with(
        &self,
        destinations: impl FnOnce(RelayBuilder) -> RelayBuilder,
    ) -> RunningRelay {
        let serves = self.config.http != Http::off();
        RunningRelay::build(destinations(Relay::builder(self.config.clone())), serves).await
    }

    /// Starts a relay as a process: `program` is the relay.
    pub fn spawn(&self, program: &Executable) -> Worker {
        Worker::spawn(self.command(program).arg("run"))
    }

    /// A command of the relay's program, configured as this outbox is.
    pub fn command(&self, program: &Executable) -> Command {
        let Config { relay, database, kafka, wake, batch, limits, http, .. } = &self.config;
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        let mut command = program.command();
        command
            .env("OUTBOX_RELAY__LEASE", millis(relay.lease))
            .env("OUTBOX_RELAY__SHARED", relay.shared.to_string())
            .env("OUTBOX_DATABASE__URL", database.url.expose())
            .env("OUTBOX_DATABASE__STATEMENT_TIMEOUT", millis(database.statement_timeout))
            .env("OUTBOX_KAFKA__BOOTSTRAP", &kafka.bootstrap)
            .env("OUTBOX_KAFKA__TOPIC", &kafka.topic)
            .env("OUTBOX_KAFKA__FENCING", kafka.fencing.to_string())
            .env("OUTBOX_KAFKA__MESSAGE_BYTES_MAX", kafka.message_bytes_max.to_string())
            .env("OUTBOX_KAFKA__RAW__RECONNECT_BACKOFF_MAX_MS", "200")
            .env("OUTBOX_BATCH__EVENTS_MAX", batch.events_max.to_string())
            .env("OUTBOX_WAKE__NOTIFY", wake.notify.to_string())
            .env("OUTBOX_WAKE__POLL_INTERVAL", millis(wake.poll_interval))
            .env("OUTBOX_HTTP__LISTEN", &http.listen)
            .env("OUTBOX_LIMITS__OUTAGE_DELAY_MAX", millis(limits.outage_delay_max))
            .current_dir(std::env::temp_dir());
        command
    }

    /// Rows that are neither sent nor discarded, those aside that wait for a person.
    pub async fn waiting(&self) -> i64 {
        self.schema
            .number(
                "SELECT count(*) FROM outbox_events LEFT JOIN outbox_parked USING (seq)
                 WHERE sent_at IS NULL AND discarded_at IS NULL AND state IS DISTINCT FROM 'parked'",
            )
            .await
    }

    /// How many rows of `outbox_parked` fulfil a condition, such as `state = 'behind'`.
    pub async fn parked(&self, condition: &str) -> i64 {
        let rows = format!("SELECT count(*) FROM outbox_parked WHERE {condition}");
        self.schema.number(&rows).await
    }

    /// Waits until that many do.
    pub async fn has_parked(&self, condition: &str, count: i64) {
        let what = format!("{count} parked rows with {condition}");
        eventually(SOON, &what, async || self.parked(condition).await == count).await;
    }

    /// The error of the parked row of an aggregate that others wait behind.
    pub async fn parked_error(&self, aggregate: &str) -> String {
        let error = "SELECT error FROM outbox_parked WHERE aggregate_id = $1 AND state <> 'behind'";
        let error = sqlx::query_scalar(error).bind(aggregate).fetch_one(self.schema.pool());
        error.await.expect("one row with an error")
    }

    /// From now on failed attempts are kept, for [`Outbox::attempts_max`].
    pub async fn record_attempts(&self) {
        self.schema.run(RECORD_ATTEMPTS).await;
    }

    /// The most failed attempts that a row has had since [`Outbox::record_attempts`]; of all aggregates but this one.
    pub async fn attempts_max(&self, but: &str) -> i64 {
        let most = format!(
            "SELECT coalesce(max(attempts), 0)::bigint FROM recorded_attempts WHERE aggregate_id <> '{but}'"
        );
        self.schema.number(&most).await
    }

    /// Waits until no row waits.
    pub async fn drained(&self, deadline: Duration) {
        eventually(deadline, "the outbox is drained", async || self.waiting().await == 0).await;
    }

    /// Everything that is in the topic.
    pub async fn arrivals(&self) -> Vec<Arrival> {
        arrivals(self.topic.bootstrap(), self.topic.name(), self.topic.partitions()).await
    }

    /// Waits until so many records are in the topic.
    pub async fn arrived(&self, count: usize) -> Vec<Arrival> {
        crate::until_some(SOON, &format!("{count} records arrive"), async || {
            Some(self.arrivals().await).filter(|found| found.len() >= count)
        })
        .await
    }
}

/// Event number `n` of an aggregate.
pub fn counted(aggregate: &str, n: i64) -> OutboxEvent {
    let aggregate = Aggregate::new("Account", aggregate).expect("an aggregate");
    OutboxEvent::new("Counted", &aggregate, &serde_json::json!({ "n": n })).expect("an event")
}

/// A relay that runs in a task of this process.
#[derive(Debug)]
pub struct RunningRelay {
    /// What it has done so far.
    pub counters: Arc<Counters>,
    /// What is read off it, where its configuration has a port.
    pub readings: Option<Readings>,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

impl RunningRelay {
    /// Builds a relay and runs it.
    pub async fn start(config: Config) -> Self {
        let serves = config.http != Http::off();
        Self::build(Relay::builder(config), serves).await
    }

    /// Runs a relay, which has an HTTP port or not.
    pub async fn build(builder: RelayBuilder, serves: bool) -> Self {
        let relay = builder.build().await.expect("a sound relay");
        let (shutdown, asked) = oneshot::channel::<()>();
        let (counters, readings) = (relay.counters(), serves.then(|| relay.readings()));
        let task = tokio::spawn(relay.run(async move { _ = asked.await }));
        Self { counters, readings, shutdown, task }
    }

    /// Asks it to end, and waits for that.
    pub async fn stop(self) -> Ended {
        let _ = self.shutdown.send(());
        self.task.await.expect("the relay does not panic")
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Ended {
        self.task.await.expect("the relay does not panic")
    }
}
