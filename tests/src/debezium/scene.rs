//! A Kafka, a PostgreSQL and a Kafka Connect with Debezium's connector.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use outbox_relay::config::{Config, Overrides};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    message::Headers as _,
};
use tempfile::TempDir;
use xtask::server::{Connect, ConnectSettings};

use crate::{Executable, OwnKafka, OwnPostgres, Schema, run_folder::run_folder};

/// How long no record has to come for a topic to be read.
const QUIET: Duration = Duration::from_secs(2);
/// One for each connector, also of those that have failed and not given theirs back.
const SLOTS: &str = "max_replication_slots = 50\nmax_wal_senders = 50";
/// How many partitions each topic has.
const PARTITIONS: i32 = 4;

/// The servers.
#[derive(Debug)]
pub struct Scene {
    connect: Mutex<Option<Arc<Connect>>>,
    start: Start,
    pub(super) kafka: OwnKafka,
    pub(super) postgres: OwnPostgres,
    pub(super) folder: TempDir,
}

/// What a worker of Connect is started with.
#[derive(Clone, Debug)]
struct Start {
    jars: PathBuf,
    plugin: PathBuf,
    bootstrap: String,
    settings: String,
}

/// A record as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Read {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) at_ms: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Read {
    /// The event's id.
    pub(super) fn id(&self) -> String {
        let id = self.headers.iter().find(|(name, _)| name == "id");
        let id = id.and_then(|(_, value)| value.clone()).expect("each record has an id");
        String::from_utf8(id).expect("an id is text")
    }
}

impl Scene {
    /// Starts all of them; `jars` are those of Connect, `plugin` those of Debezium, `settings` further ones of the
    /// worker.
    pub async fn set(jars: &Path, plugin: &Path, settings: &str) -> Self {
        let (kafka, postgres) = (OwnKafka::start().await, OwnPostgres::start_with(SLOTS).await);
        let (jars, plugin, bootstrap) = (jars.to_owned(), plugin.to_owned(), kafka.address());
        let start = Start { jars, plugin, bootstrap, settings: settings.to_owned() };
        let folder = tempfile::tempdir().expect("a folder");
        let scene = Self { connect: Mutex::new(None), start, kafka, postgres, folder };
        scene.start_connect().await;
        scene
    }

    /// Starts the worker; its connectors are in Kafka, and come with it.
    pub(super) async fn start_connect(&self) {
        let Start { jars, plugin, bootstrap, settings } = self.start.clone();
        let start = move || {
            let settings = ConnectSettings { properties: &settings, ..ConnectSettings::SMALL };
            Connect::start(run_folder(), "connect", (&jars, &plugin), &bootstrap, settings)
        };
        let connect = tokio::task::spawn_blocking(start).await.expect("the thread ends");
        let connect = connect.unwrap_or_else(|failure| panic!("{failure}"));
        *self.connect.lock().expect("nobody panics with it") = Some(Arc::new(connect));
    }

    /// `kill -9` of the worker, with all its connectors.
    pub(super) fn kill_connect(&self) {
        drop(self.connect.lock().expect("nobody panics with it").take());
    }

    fn connect(&self) -> Arc<Connect> {
        let connect = self.connect.lock().expect("nobody panics with it").clone();
        connect.expect("the worker runs")
    }

    /// What the worker has logged.
    pub(super) fn log(&self) -> String {
        self.connect().log()
    }

    /// One call of Connect.
    pub(super) async fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (method, path, body) = (method.to_owned(), path.to_owned(), body.to_owned());
        let connect = self.connect();
        let call = move || connect.call(&method, &path, &body);
        let answer = tokio::task::spawn_blocking(call).await.expect("the thread ends");
        answer.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// A configuration of the relay, and a command of its program under it.
    pub(super) fn relay(
        &self,
        program: &Executable,
        schema: &Schema,
        debezium: &toml::Table,
    ) -> (Config, Command) {
        let file = self.folder.path().join(format!("{}.toml", schema.name()));
        let text = format!(
            "[relay]\nlease = \"2s\"\n[database]\nurl = {:?}\n[kafka]\nbootstrap = {:?}\nformat = \"debezium-outbox\"\n\
             [http]\nlisten = \"off\"\n[wake]\npoll_interval = \"50ms\"\n[debezium]\n{debezium}",
            schema.url(),
            self.kafka.address(),
        );
        std::fs::write(&file, text).expect("a folder takes files");
        let config = Config::load(Some(file.as_path()), [], &Overrides::new());
        let mut command = program.command();
        command.env("OUTBOX_CONFIG", &file).current_dir(self.folder.path());
        (config.expect("the configuration is right"), command)
    }

    /// Creates topics. Records with old timestamps stay.
    pub(super) async fn topics(&self, names: &[String]) {
        let admin: AdminClient<DefaultClientContext> =
            self.client().create().expect("a client of Kafka");
        let new: Vec<_> = names
            .iter()
            .map(|name| {
                NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1))
                    .set("retention.ms", "-1")
            })
            .collect();
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
        for created in admin.create_topics(&new, &options).await.expect("the broker answers") {
            created.expect("the topic is new");
        }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.address());
        config
    }

    /// Everything in topics, each partition in its order.
    pub(super) async fn read(&self, topics: &[String]) -> Vec<Read> {
        let mut config = self.client();
        config.set("group.id", "reader").set("isolation.level", "read_committed");
        config.set("enable.auto.commit", "false");
        let topics = topics.to_vec();
        let read = move || {
            let consumer: BaseConsumer = config.create().expect("a client of Kafka");
            let mut list = TopicPartitionList::new();
            for (topic, partition) in
                topics.iter().flat_map(|topic| (0..PARTITIONS).map(move |number| (topic, number)))
            {
                list.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
            }
            consumer.assign(&list).expect("an assignment");
            let mut found = Vec::new();
            while let Some(message) = consumer.poll(QUIET) {
                let message = message.expect("a record");
                let headers = message.headers().map_or_else(Vec::new, |headers| {
                    let owned = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
                    headers.iter().map(|one| (one.key.to_owned(), owned(one.value))).collect()
                });
                found.push(Read {
                    topic: message.topic().to_owned(),
                    partition: message.partition(),
                    offset: message.offset(),
                    at_ms: message.timestamp().to_millis().unwrap_or_default(),
                    key: message.key().map(<[u8]>::to_vec),
                    value: message.payload().map(<[u8]>::to_vec),
                    headers,
                });
            }
            found.sort_by_key(|read| (read.topic.clone(), read.partition, read.offset));
            found
        };
        tokio::task::spawn_blocking(read).await.expect("the topics can be read")
    }
}

/// By their ids; each occurs once.
pub(super) fn by_id(read: Vec<Read>) -> BTreeMap<String, Read> {
    let mut all = BTreeMap::new();
    for record in read {
        let id = record.id();
        assert!(all.insert(id.clone(), record).is_none(), "{id} was written twice");
    }
    all
}

/// Runs a command of the relay's program; it has to succeed.
pub(super) async fn run(mut command: Command) -> String {
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("the thread ends");
    let output = ran.expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the command failed: {text}{complaints}");
    text
}
