//! A configuration, sending events, a consumer or a relay in a task, waiting.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use inbox_consumer::{
    Consumer, Ended, Routes,
    config::{Config, Http},
    testing::broker::Producer,
};
use outbox_core::OutboxEvent;
use outbox_relay::{RelayBuilder, telemetry::Readings};
use sqlx::Postgres;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::Error;

/// How long a lesson waits for something before it says that it did not happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration for a lesson: all defaults, but no HTTP port, since several lessons may run at once. A
/// real one comes from a file: see docs/configuration.md.
pub fn configure(name: &str, kafka: &str, topic: &str, database: &str) -> Config {
    let mut config = Config::new(name, kafka, [topic], database);
    config.http = Http::off();
    config
}

/// Sends events to a topic as their records. In a real system the relay of an outbox does that.
pub async fn send(kafka: &str, topic: &str, events: &[OutboxEvent]) -> Result<(), Error> {
    let producer = Producer::new(kafka)?;
    let records: Vec<_> = events.iter().map(OutboxEvent::record).collect();
    let sent = records.iter().map(|record| producer.send(topic, record));
    futures::future::try_join_all(sent).await?;
    Ok(())
}

/// A consumer that runs in a task.
pub struct RunningConsumer {
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

impl RunningConsumer {
    /// Starts it; the tables have to be there. (Boxed, so that a consumer is compiled once, here, and not in every
    /// lesson.)
    pub fn start(
        config: Config,
        routes: Routes<Postgres>,
    ) -> BoxFuture<'static, Result<Self, Error>> {
        Box::pin(async move {
            let consumer = Consumer::builder(config, routes).build().await?;
            let (shutdown, asked) = oneshot::channel::<()>();
            let task = tokio::spawn(consumer.run(async { _ = asked.await }));
            Ok(Self { shutdown, task })
        })
    }

    /// Asks it to end, and waits until it has released its partitions and ended.
    pub async fn stop(self) -> Result<(), Error> {
        let _ = self.shutdown.send(());
        let ended = self.task.await?;
        assert_eq!(ended, Ended::Shutdown);
        Ok(())
    }

    /// Drops it wherever it is, as if its process had died.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// A relay that runs in a task.
pub struct RunningRelay {
    /// Its health and metrics, as its HTTP port would tell them.
    pub readings: Readings,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<outbox_relay::Ended>,
}

impl RunningRelay {
    /// Starts it; the tables have to be there. (Boxed, as [`RunningConsumer::start`].)
    pub fn start(builder: RelayBuilder) -> BoxFuture<'static, Result<Self, Error>> {
        Box::pin(async move {
            let relay = builder.build().await?;
            let (shutdown, asked) = oneshot::channel::<()>();
            let readings = relay.readings();
            let task = tokio::spawn(relay.run(async { _ = asked.await }));
            Ok(Self { readings, shutdown, task })
        })
    }

    /// Asks it to end, and waits until what is under way is marked and its turn is given up.
    pub async fn stop(self) -> Result<(), Error> {
        let _ = self.shutdown.send(());
        let ended = self.task.await?;
        assert_eq!(ended, outbox_relay::Ended::Shutdown);
        Ok(())
    }

    /// Drops it wherever it is, as if its process had died.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Waits until something is true, and no longer.
pub async fn wait_until<F>(what: &str, mut holds: impl FnMut() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<bool, sqlx::Error>>,
{
    let began = Instant::now();
    while !holds().await? {
        if began.elapsed() > PATIENCE {
            return Err(Error::new(format!("it did not happen within {PATIENCE:?}: {what}")));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
