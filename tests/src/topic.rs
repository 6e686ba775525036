//! A topic of Kafka for one test, and what an operator can do to it.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::{SOON, unique, until_some};

/// Every call to a broker is bounded: a frozen one would hold a test for a minute.
const CALL_MAX: Duration = Duration::from_secs(10);

/// A topic with a name that no other test uses.
#[derive(Clone, Debug)]
pub struct Topic {
    bootstrap: String,
    name: String,
    partitions: i32,
    settings: Vec<(String, String)>,
}

impl Topic {
    /// Creates a topic whose name begins with `stem`, with settings such as `("cleanup.policy", "compact")`;
    /// returns when every partition has a leader.
    pub async fn create(
        bootstrap: &str,
        stem: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Self {
        let topic = Self::planned(bootstrap, stem, partitions, settings);
        topic.create_again().await;
        topic
    }

    /// The same without creating it: [`Topic::create_again`] does, later.
    pub fn planned(
        bootstrap: &str,
        stem: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Self {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (bootstrap, name) = (bootstrap.to_owned(), unique(stem));
        Self { bootstrap, name, partitions, settings }
    }

    /// The topic's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many partitions it was created with.
    pub fn partitions(&self) -> i32 {
        self.partitions
    }

    /// Kafka's bootstrap list.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Deletes the topic; returns when no broker knows it.
    pub async fn delete(&self) {
        self.delete_at_once().await;
        until_some(SOON, "the topic is gone", async || {
            self.leaders().await.is_none_or(|count| count == 0).then_some(())
        })
        .await;
    }

    /// Deletes the topic, and does not wait until that is known everywhere.
    pub async fn delete_at_once(&self) {
        let done = self.admin().delete_topics(&[&self.name], &options()).await;
        accept(&self.name, done.expect("the broker answers"));
    }

    /// Creates the topic under its name: one that was only planned, or once more after [`Topic::delete`];
    /// offsets begin at zero.
    pub async fn create_again(&self) {
        self.create_again_with(self.partitions).await;
    }

    /// The same with another number of partitions.
    pub async fn create_again_with(&self, partitions: i32) {
        let admin = self.admin();
        let mut topic = NewTopic::new(&self.name, partitions, TopicReplication::Fixed(1));
        for (key, value) in &self.settings {
            topic = topic.set(key, value);
        }
        let done = admin.create_topics([&topic], &options()).await.expect("the broker answers");
        accept(&self.name, done);
        self.await_leaders(partitions).await;
    }

    /// Adds partitions until there are `count`.
    pub async fn grow(&self, count: i32) {
        let partitions = usize::try_from(count).expect("a count of partitions");
        let more = NewPartitions::new(&self.name, partitions);
        let done = self.admin().create_partitions([&more], &options()).await;
        accept(&self.name, done.expect("the broker answers"));
        self.await_leaders(count).await;
    }

    /// Deletes the records of a partition below an offset, as retention does.
    pub async fn delete_before(&self, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Offset(offset))
            .expect("an offset");
        self.admin().delete_records(&list, &options()).await.expect("the broker deletes records");
    }

    /// The first offset and the one behind the last, of a partition.
    pub async fn offsets(&self, partition: i32) -> (i64, i64) {
        let name = self.name.clone();
        self.with_client("", move |client| {
            client.fetch_watermarks(&name, partition, CALL_MAX).expect("the broker tells offsets")
        })
        .await
    }

    /// What a group has committed, per partition of those the topic was created with.
    pub async fn committed(&self, group: &str) -> Vec<Option<i64>> {
        let (name, count) = (self.name.clone(), self.partitions);
        self.with_client(group, move |client| {
            let mut list = TopicPartitionList::new();
            list.add_partition_range(&name, 0, count - 1);
            let list = client.committed_offsets(list, CALL_MAX).expect("the group's offsets");
            // The list must be gone before the client, or the client's end hangs.
            (0..count).map(|partition| offset_of(&list, &name, partition)).collect()
        })
        .await
    }

    /// Commits an offset for a group without members, as an operator's tool does.
    pub async fn commit(&self, group: &str, partition: i32, offset: i64) {
        let name = self.name.clone();
        self.with_client(group, move |client| {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&name, partition, Offset::Offset(offset)).expect("an offset");
            client.commit(&list, CommitMode::Sync).expect("a group without members takes offsets");
        })
        .await;
    }

    /// Deletes a group without members, with its offsets.
    pub async fn delete_group(&self, group: &str) {
        let done = self.admin().delete_groups(&[group], &options()).await;
        for result in done.expect("the broker answers") {
            result.unwrap_or_else(|(group, error)| panic!("cannot delete group {group}: {error}"));
        }
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        client_settings(&self.bootstrap).create().expect("an admin client")
    }

    /// Waits until so many partitions have a leader.
    pub async fn await_leaders(&self, count: i32) {
        let what = format!("{} has {count} partitions with leaders", self.name);
        until_some(SOON, &what, async || {
            (self.leaders().await == usize::try_from(count).ok()).then_some(())
        })
        .await;
    }

    /// How many partitions have a leader; nothing if the topic is not known.
    async fn leaders(&self) -> Option<usize> {
        let name = self.name.clone();
        self.with_client("", move |client| {
            let metadata = client.fetch_metadata(Some(&name), CALL_MAX).ok()?;
            let topic = metadata.topics().iter().find(|topic| topic.error().is_none())?;
            Some(topic.partitions().iter().filter(|partition| partition.leader() >= 0).count())
        })
        .await
    }

    /// Calls of a consumer block, and so does its end.
    async fn with_client<T: Send + 'static>(
        &self,
        group: &str,
        call: impl FnOnce(&BaseConsumer) -> T + Send + 'static,
    ) -> T {
        let mut settings = client_settings(&self.bootstrap);
        settings.set("group.id", if group.is_empty() { "tests-without-group" } else { group });
        settings.set("enable.auto.commit", "false");
        let task = tokio::task::spawn_blocking(move || {
            let client: BaseConsumer = settings.create().expect("a consumer");
            call(&client)
        });
        task.await.expect("the call to Kafka ends")
    }
}

fn offset_of(list: &TopicPartitionList, topic: &str, partition: i32) -> Option<i64> {
    match list.find_partition(topic, partition)?.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

fn accept(topic: &str, results: Vec<Result<String, (String, rdkafka::types::RDKafkaErrorCode)>>) {
    for result in results {
        if let Err((_, code)) = result {
            panic!("the broker refuses a change of topic {topic}: {}", KafkaError::AdminOp(code));
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(CALL_MAX)).request_timeout(Some(CALL_MAX))
}

pub(crate) fn client_settings(bootstrap: &str) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", bootstrap);
    settings.set("socket.timeout.ms", "10000");
    settings.set("reconnect.backoff.max.ms", "200");
    settings
}
