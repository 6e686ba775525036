//! A fault of the runtime itself: the consumer ends, says so, and closes what is open.

use std::{
    future::{pending, ready},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use inbox_engine::internal::{Generation, LeaderEpoch, LogRange, NextOffset, Offset};
use kafka_kit::internal::{Arrival, Broker, BrokerError, BrokerHealth, Committed, TopicState};
use outbox_core::{TopicPartition, internal::CommitMark};
use sqlx::Sqlite;
use tokio::{sync::mpsc, task::JoinSet};

use super::{Consumer, Ended, migrate};
use crate::{Event, Handler, HandlerResult, Routes, Tx, config::Config};

type Answer<T> = BoxFuture<'static, Result<T, BrokerError>>;

/// The loop that owns the engine panics as soon as it looks at this one.
#[derive(Default)]
struct Broken {
    closed: AtomicBool,
}

impl Broker for Broken {
    fn committed(&self, _: &TopicPartition) -> Answer<Option<Committed>> {
        pending().boxed()
    }

    fn mark(&self, _: &CommitMark) {}

    fn log_range(&self, _: &TopicPartition) -> Answer<LogRange> {
        pending().boxed()
    }

    fn topic(&self, _: &str) -> Answer<Option<TopicState>> {
        pending().boxed()
    }

    fn record(&self, _: &TopicPartition, _: Offset) -> Answer<Option<Arrival>> {
        pending().boxed()
    }

    fn seek(&self, _: &TopicPartition, _: Generation, _: NextOffset, _: LeaderEpoch) -> Answer<()> {
        pending().boxed()
    }

    fn pause(&self, _: &TopicPartition, _: bool) {}

    fn commit(
        &self,
        _: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
    ) -> Answer<Vec<TopicPartition>> {
        pending().boxed()
    }

    fn ack_revocation(&self, _: Vec<TopicPartition>) {}

    fn confirm(&self, _: &TopicPartition) -> BoxFuture<'static, bool> {
        pending().boxed()
    }

    fn health(&self) -> BrokerHealth {
        panic!("the rule is broken")
    }

    fn close(&self, _: Duration) -> Answer<()> {
        self.closed.store(true, SeqCst);
        ready(Ok(())).boxed()
    }
}

struct Nothing;

impl Handler<Sqlite> for Nothing {
    type Event = serde_json::Value;

    async fn handle(&self, _: &Event<serde_json::Value>, _: &mut Tx<'_, Sqlite>) -> HandlerResult {
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_of_the_loop_closes_what_is_open_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/inbox.db", folder.path().display());
    let config = Config::new("panicking", "localhost:9092", ["orders"], url);
    migrate::<Sqlite>(&config).await.unwrap();
    let routes = Routes::default().on("Placed", Nothing);
    let consumer = Consumer::builder(config, routes).build().await.unwrap();
    let readings = consumer.readings();
    let broker = Arc::new(Broken::default());
    let (_events, told) = mpsc::unbounded_channel();
    let ended = consumer.run_on(Arc::clone(&broker) as _, told, pending(), JoinSet::new()).await;
    assert_eq!(ended, Ended::Panicked("the rule is broken".to_owned()));
    assert!(broker.closed.load(SeqCst), "the group was not left");
    assert_eq!(readings.readiness().reasons[0].reason, "ended");
}
