//! A Kafka broker for a test that hurts it.

use std::path::PathBuf;

use xtask::server::{Kafka, KafkaSettings, Process};

use crate::run_folder::{remove, run_folder, unique_name};
use crate::services::variable;
use crate::{Proxy, Topic};

/// A single-node Kafka of a test's own; ended when this is dropped.
#[derive(Debug)]
pub struct OwnKafka {
    name: String,
    /// Elsewhere while a thread starts it.
    kafka: Option<Kafka>,
}

impl OwnKafka {
    /// Starts a broker like the shared one.
    pub async fn start() -> Self {
        Self::start_with(KafkaSettings::default()).await
    }

    /// Starts a broker with other settings.
    pub async fn start_with(settings: KafkaSettings) -> Self {
        let jars = PathBuf::from(variable("INBOX_TEST_KAFKA_JARS"));
        let name = unique_name("kafka");
        let own = name.clone();
        let create = move || Kafka::create(run_folder(), &own, &jars, &settings);
        let created = tokio::task::spawn_blocking(create).await.expect("the thread ends");
        let kafka = created.unwrap_or_else(|failure| panic!("{failure}"));
        let mut own = Self { name, kafka: Some(kafka) };
        own.start_again().await;
        own
    }

    /// Starts a broker that clients reach through a proxy, and the proxy.
    pub async fn start_behind_proxy() -> (Self, Proxy) {
        let proxy = Proxy::start("127.0.0.1:1").await;
        let advertised_port = Some(proxy.port());
        let settings = KafkaSettings { advertised_port, ..KafkaSettings::default() };
        let own = Self::start_with(settings).await;
        proxy.lead_to(&format!("127.0.0.1:{}", own.kafka().port()));
        (own, proxy)
    }

    /// Starts the broker again after [`OwnKafka::kill`], on the same storage and port.
    pub async fn start_again(&mut self) {
        let mut kafka = self.kafka.take().expect("the broker is not being started");
        let start = move || kafka.start().map(|()| kafka);
        let started = tokio::task::spawn_blocking(start).await.expect("the thread ends");
        self.kafka = Some(started.unwrap_or_else(|failure| panic!("{failure}")));
    }

    /// The bootstrap list for clients.
    pub fn address(&self) -> String {
        self.kafka().address()
    }

    /// A new topic on this broker.
    pub async fn topic(&self, stem: &str, partitions: i32) -> Topic {
        Topic::create(&self.address(), stem, partitions, &[]).await
    }

    /// Ends the broker as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(kafka) = &mut self.kafka {
            kafka.kill();
        }
    }

    /// Freezes the broker: it holds its connections and answers nothing.
    pub fn pause(&self) {
        self.process().signal("STOP");
    }

    /// Lets a frozen broker go on.
    pub fn resume(&self) {
        self.process().signal("CONT");
    }

    fn process(&self) -> Process {
        self.kafka().process().expect("the broker runs")
    }

    fn kafka(&self) -> &Kafka {
        self.kafka.as_ref().expect("the broker has started")
    }
}

impl Drop for OwnKafka {
    fn drop(&mut self) {
        self.kill();
        remove(&self.name);
    }
}
