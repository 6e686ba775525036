//! A single-node Kafka, broker and controller at once, from its jars.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::capture;
use crate::failure::{Explain, Outcome, failure};

use super::note::Note;
use super::ports;
use super::process::Process;

/// Any sixteen bytes in base64url.
const CLUSTER: &str = "aW5ib3gtdGVzdHMtMDAwMQ";
const START_MAX: Duration = Duration::from_mins(1);

/// How a broker differs from the others.
#[derive(Clone, Debug, Default)]
pub struct KafkaSettings {
    /// The port that clients are told, when it is not the broker's own: a proxy's.
    pub advertised_port: Option<u16>,
    /// Further `key=value` lines; the last line for a key counts.
    pub properties: String,
    /// Listeners besides the one in plaintext.
    pub listeners: Vec<Listener>,
    /// Users and passwords for SCRAM.
    pub users: Vec<(String, String)>,
}

/// A further way to a broker, on a port of its own.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its name, in capitals.
    pub name: &'static str,
    /// `SSL` or `SASL_SSL`.
    pub protocol: &'static str,
    /// What it is made of, by names without `listener.name.NAME.`.
    pub properties: Vec<(&'static str, String)>,
}

/// A broker with its own storage. It runs from [`Kafka::start`] on, until its process is ended.
#[derive(Debug)]
pub struct Kafka {
    folder: PathBuf,
    name: String,
    jars: PathBuf,
    port: u16,
    advertised_port: u16,
    /// Of the further listeners, by name.
    further: Vec<(&'static str, u16)>,
    child: Option<Child>,
}

impl Kafka {
    /// Formats the storage of a new broker, `folder/name`.
    pub fn create(
        folder: &Path,
        name: &str,
        jars: &Path,
        settings: &KafkaSettings,
    ) -> Outcome<Self> {
        let [port, controller] = ports::free()?;
        let advertised_port = settings.advertised_port.unwrap_or(port);
        let own = (folder.to_path_buf(), name.to_owned(), jars.to_path_buf());
        let (folder, name, jars) = own;
        let port_of = |listener: &Listener| ports::free().map(|[port]| (listener.name, port));
        let further = settings.listeners.iter().map(port_of).collect::<Outcome<_>>()?;
        let kafka = Self { folder, name, jars, port, advertised_port, further, child: None };
        let file = kafka.file("properties");
        let text = kafka.properties(controller, settings);
        fs::write(&file, text).explain(|| format!("cannot write {}", file.display()))?;
        let mut tool = kafka.java();
        tool.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config"]);
        tool.arg(&file);
        for (user, password) in &settings.users {
            let entry = format!("SCRAM-SHA-512=[name={user},password={password}]");
            tool.arg("--add-scram").arg(entry);
        }
        capture(&mut tool)?;
        Ok(kafka)
    }

    /// Starts the broker; returns when it serves clients. Again after its process has ended.
    pub fn start(&mut self) -> Outcome {
        let mut child = self.spawn()?;
        let process = Process::of(child.id());
        if let Some(process) = &process {
            Note::write(&self.folder, &self.name, process, "KILL")?;
        }
        let started = wait_until_started(&mut child, &self.file("log"));
        self.child = Some(child);
        started
    }

    /// The bootstrap list for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.advertised_port)
    }

    /// The bootstrap list of a further listener.
    pub fn address_of(&self, listener: &str) -> Option<String> {
        let found = self.further.iter().find(|(name, _)| *name == listener)?;
        Some(format!("127.0.0.1:{}", found.1))
    }

    /// Runs a tool of Kafka's on the broker, by the name of its class.
    pub fn run_tool(&self, class: &str, arguments: &[&str]) -> Outcome {
        let mut tool = self.java();
        tool.args([class, "--bootstrap-server", &self.address()]).args(arguments);
        capture(&mut tool).map(drop)
    }

    /// The port that the broker itself listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The broker's process, while it is alive.
    pub fn process(&self) -> Option<Process> {
        Note::read(&self.folder, &self.name)
    }

    /// Kills the broker as `kill -9` does; the storage stays.
    pub fn kill(&mut self) {
        if let Some(process) = self.process() {
            process.stop("KILL", Duration::ZERO);
        }
        if let Some(mut child) = self.child.take() {
            drop(child.wait());
        }
    }

    /// Where the broker keeps its logs.
    pub fn storage(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// What the broker has logged since its last start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    fn file(&self, end: &str) -> PathBuf {
        self.folder.join(format!("{}.{end}", self.name))
    }

    fn spawn(&self) -> Outcome<Child> {
        let log = self.file("log");
        let doing = || format!("cannot write {}", log.display());
        let output = File::create(&log).explain(doing)?;
        let errors = output.try_clone().explain(doing)?;
        self.java()
            .arg("kafka.Kafka")
            .arg(self.file("properties"))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // Ctrl-C ends whoever started it, and that ends the broker.
            .process_group(0)
            .spawn()
            .explain(|| "cannot start Kafka with `java`".to_owned())
    }

    fn java(&self) -> Command {
        let mut java = Command::new("java");
        java.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
        java.args([
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
        ]);
        java.arg("-cp").arg(self.jars.join("*"));
        java
    }

    fn properties(&self, controller: u16, settings: &KafkaSettings) -> String {
        let Self { port, advertised_port, .. } = self;
        let mut further = settings.properties.clone();
        let (mut places, mut protocols) = (String::new(), String::new());
        for ((name, port), listener) in self.further.iter().zip(&settings.listeners) {
            _ = write!(places, ",{name}://127.0.0.1:{port}");
            _ = write!(protocols, ",{name}:{}", listener.protocol);
            let prefix = format!("listener.name.{}", name.to_lowercase());
            for (key, value) in &listener.properties {
                _ = write!(further, "\n{prefix}.{key}={value}");
            }
        }
        format!(
            "\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{places}
advertised.listeners=PLAINTEXT://127.0.0.1:{advertised_port}{places}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{protocols}
inter.broker.listener.name=PLAINTEXT
log.dirs={}
{SMALL_AND_IMPATIENT}{further}
",
            self.storage().display()
        )
    }
}

fn wait_until_started(child: &mut Child, log: &Path) -> Outcome {
    let deadline = Instant::now() + START_MAX;
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains("Kafka Server started") {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            return failure(format!("Kafka ended while it started ({status}):\n{}", tail(&text)));
        }
        if Instant::now() > deadline {
            let seconds = START_MAX.as_secs();
            return failure(format!("Kafka did not start within {seconds} s:\n{}", tail(&text)));
        }
        thread::sleep(Duration::from_millis(25));
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// One node, few internal partitions, and limits so low that a fault shows within seconds.
const SMALL_AND_IMPATIENT: &str = "\
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
num.partitions=4
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.heartbeat.interval.ms=200
group.consumer.min.heartbeat.interval.ms=100
group.consumer.session.timeout.ms=3000
group.consumer.min.session.timeout.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.segment.bytes=16777216
log.index.size.max.bytes=1048576
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=1000
log.initial.task.delay.ms=500
log.cleaner.backoff.ms=500
message.max.bytes=33554432
";
