//! A single-node Kafka, broker and controller at once, from its jars.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{capture, run};
use crate::failure::{Explain, Outcome, failure};
use crate::folders;
use crate::process::Process;

use super::folder::Folder;
use super::ports;

const POM: &str = include_str!("../../services/kafka/pom.xml");
/// Any sixteen bytes in base64url.
const CLUSTER: &str = "aW5ib3gtdGVzdHMtMDAwMQ";
const START_SECONDS_MAX: u64 = 60;

/// Kafka's jars: fetched by Maven once, then kept under the build folder.
pub(crate) fn jars() -> Outcome<PathBuf> {
    let folder = folders::cache()?.join("kafka-4.1.1");
    if folder.is_dir() {
        return Ok(folder);
    }
    println!("fetching Kafka 4.1.1 by Maven (43 MB, once)");
    let part = folder.with_extension("part");
    drop(fs::remove_dir_all(&part));
    fs::create_dir_all(&part).explain(|| format!("cannot create {}", part.display()))?;
    let pom = part.join("pom.xml");
    fs::write(&pom, POM).explain(|| format!("cannot write {}", pom.display()))?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&pom);
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    run(maven.arg(format!("-DoutputDirectory={}", part.display())))?;
    // A folder under its final name is complete.
    fs::rename(&part, &folder).explain(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Starts a broker; returns when it serves clients.
pub(crate) fn start(folder: &Folder, jars: &Path) -> Outcome {
    let [port, controller] = ports::free()?;
    let settings = folder.file("kafka.properties");
    fs::write(&settings, properties(&folder.file("kafka"), port, controller))
        .explain(|| format!("cannot write {}", settings.display()))?;
    format_storage(jars, &settings)?;
    let log = folder.file("kafka.log");
    let mut child = spawn(jars, &settings, &log)?;
    if let Some(process) = Process::of(child.id()) {
        folder.note_process("kafka", &process)?;
    }
    wait_until_started(&mut child, &log)?;
    folder.note_address("kafka", &format!("127.0.0.1:{port}"))
}

fn java(jars: &Path) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
    java.args([
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    ]);
    java.arg("-cp").arg(jars.join("*"));
    java
}

fn format_storage(jars: &Path, settings: &Path) -> Outcome {
    let mut tool = java(jars);
    tool.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config"]);
    capture(tool.arg(settings)).map(drop)
}

fn spawn(jars: &Path, settings: &Path, log: &Path) -> Outcome<Child> {
    let output = File::create(log).explain(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().explain(|| format!("cannot write {}", log.display()))?;
    java(jars)
        .arg("kafka.Kafka")
        .arg(settings)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .explain(|| "cannot start Kafka with `java`".to_owned())
}

fn wait_until_started(child: &mut Child, log: &Path) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains("Kafka Server started") {
            return Ok(());
        }
        let tail = || text.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev();
        let tail = || tail().collect::<Vec<_>>().join("\n");
        if let Ok(Some(status)) = child.try_wait() {
            return failure(format!("Kafka ended while it started ({status}):\n{}", tail()));
        }
        if Instant::now() > deadline {
            return failure(format!("Kafka did not start in {START_SECONDS_MAX} s:\n{}", tail()));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Small, and with limits so low that a fault shows within seconds. Not for production.
fn properties(data: &Path, port: u16, controller: u16) -> String {
    format!(
        "\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
{SETTINGS}",
        data = data.display()
    )
}

const SETTINGS: &str = "\
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
