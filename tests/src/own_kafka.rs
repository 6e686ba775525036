//! A Kafka broker for a test that hurts it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
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

    /// The bootstrap list of a further listener.
    pub fn address_of(&self, listener: &str) -> String {
        self.kafka().address_of(listener).expect("the broker was started with that listener")
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

    /// Cuts the log of a partition at `offset`, while the broker is dead: the records from there on were
    /// acknowledged and are gone, as after an unclean leader election. The next start has another leader
    /// epoch.
    pub fn cut(&self, topic: &Topic, partition: i32, offset: i64) {
        let storage = self.kafka().storage();
        for name in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] {
            fs::remove_file(storage.join(name)).expect("the broker has run");
        }
        let folder = storage.join(format!("{}-{partition}", topic.name()));
        for entry in fs::read_dir(&folder).expect("the partition's folder") {
            let path = entry.expect("an entry of the folder").path();
            let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
            if ["index", "timeindex", "txnindex", "snapshot"].contains(&end) {
                fs::remove_file(path).expect("the broker makes it anew");
            }
        }
        let path = folder.join("00000000000000000000.log");
        let log = fs::read(&path).expect("the first segment");
        let file = OpenOptions::new().write(true).open(&path).expect("the first segment");
        file.set_len(batches_end(&log, offset)).expect("the segment is cut");
    }

    /// Turns the last byte of the batch at `offset` over, on the disk; the second time it is whole again.
    pub fn damage(&self, topic: &Topic, partition: i32, offset: i64) {
        let folder = self.kafka().storage().join(format!("{}-{partition}", topic.name()));
        let path = folder.join("00000000000000000000.log");
        let log = fs::read(&path).expect("the first segment");
        let at = batches_end(&log, offset + 1) - 1;
        let byte = log[usize::try_from(at).expect("a position")];
        let file = OpenOptions::new().write(true).open(&path).expect("the first segment");
        file.write_all_at(&[!byte], at).expect("the byte is written");
    }

    /// Changes access lists, as `kafka-acls.sh` does; the broker needs an authorizer.
    pub async fn change_rights(&self, arguments: &[&str]) {
        let class = "org.apache.kafka.tools.AclCommand";
        let changed = tokio::task::block_in_place(|| self.kafka().run_tool(class, arguments));
        changed.unwrap_or_else(|failure| panic!("{failure}"));
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

/// Where the batches below `offset` end in a segment. A batch begins with its first offset (eight bytes) and
/// the length of what follows (four).
fn batches_end(log: &[u8], offset: i64) -> u64 {
    let mut at = 0;
    while let Some(head) = log.get(at..at + 12) {
        let first = i64::from_be_bytes(head[..8].try_into().expect("eight bytes"));
        if first >= offset {
            assert_eq!(first, offset, "the cut goes through a batch");
            break;
        }
        let rest = u32::from_be_bytes(head[8..].try_into().expect("four bytes"));
        at += 12 + usize::try_from(rest).expect("a length");
    }
    u64::try_from(at).expect("a position")
}
