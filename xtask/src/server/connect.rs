//! A worker of Kafka Connect with one plugin, from their jars.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Explain, Outcome, failure};

use super::note::Note;
use super::ports;
use super::process::Process;

const START_MAX: Duration = Duration::from_mins(1);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What a worker is started with.
#[derive(Clone, Copy, Debug)]
pub struct ConnectSettings<'s> {
    /// Further lines of its properties; one of these wins over an earlier one of its name.
    pub properties: &'s str,
    /// The arguments of `java`.
    pub java: &'s [&'s str],
}

impl ConnectSettings<'_> {
    /// As tests need it: little memory, a quick start.
    pub const SMALL: Self = Self {
        properties: "",
        java: &["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"],
    };
}

/// A worker; ended when this is dropped.
#[derive(Debug)]
pub struct Connect {
    folder: PathBuf,
    name: String,
    port: u16,
    child: Child,
}

impl Connect {
    /// Starts a worker beside a broker; returns when it answers. `jars` are its own, `plugin` those of a plugin.
    pub fn start(
        folder: &Path,
        name: &str,
        (jars, plugin): (&Path, &Path),
        bootstrap: &str,
        settings: ConnectSettings<'_>,
    ) -> Outcome<Self> {
        let [port] = ports::free()?;
        // A folder of plugins: jars directly in it would each get a class loader of their own.
        let plugins = folder.join(format!("{name}-plugins"));
        fs::create_dir_all(&plugins).explain(|| format!("cannot create {}", plugins.display()))?;
        let link = plugins.join("plugin");
        // Of a run before this one that was killed.
        drop(fs::remove_file(&link));
        symlink(plugin, &link).explain(|| format!("cannot create {}", link.display()))?;
        let properties = folder.join(format!("{name}.properties"));
        let text = properties_of(bootstrap, port, &plugins) + settings.properties;
        fs::write(&properties, text)
            .explain(|| format!("cannot write {}", properties.display()))?;
        let log = folder.join(format!("{name}.log"));
        let doing = || format!("cannot write {}", log.display());
        let output = File::create(&log).explain(doing)?;
        let errors = output.try_clone().explain(doing)?;
        let mut java = Command::new("java");
        java.args(settings.java);
        java.args([
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
        ]);
        java.arg("-cp").arg(jars.join("*"));
        java.arg("org.apache.kafka.connect.cli.ConnectDistributed").arg(&properties);
        java.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child = java.spawn().explain(|| "cannot start Kafka Connect with `java`".to_owned())?;
        if let Some(process) = Process::of(child.id()) {
            Note::write(folder, name, &process, "KILL")?;
        }
        let mut connect = Self { folder: folder.to_path_buf(), name: name.to_owned(), port, child };
        connect.wait(&log)?;
        Ok(connect)
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the worker has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap_or_default()
    }

    fn wait(&mut self, log: &Path) -> Outcome {
        let deadline = Instant::now() + START_MAX;
        while !self.answers() {
            let ended = matches!(self.child.try_wait(), Ok(Some(_)));
            if ended || Instant::now() > deadline {
                let text = fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(20)..].join("\n");
                return failure(format!("Kafka Connect did not start:\n{tail}"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Whether it lists its connectors: before that it has not read its own topics.
    fn answers(&self) -> bool {
        self.call("GET", "/connectors", "").is_ok_and(|(status, _)| status == 200)
    }

    /// One call of its REST interface: the answer's status and body.
    pub fn call(&self, method: &str, path: &str, body: &str) -> Outcome<(u16, String)> {
        let doing = || format!("Kafka Connect does not answer {method} {path}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).explain(doing)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).explain(doing)?;
        // The older version: the answer ends with the connection, and comes in one piece.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: connect\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).explain(doing)?;
        stream.write_all(body.as_bytes()).explain(doing)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).explain(doing)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.unwrap_or_default(), body.to_owned()))
    }
}

impl Drop for Connect {
    fn drop(&mut self) {
        if let Some(process) = Process::of(self.child.id()) {
            process.stop("KILL", Duration::ZERO);
        }
        drop(self.child.wait());
    }
}

fn properties_of(bootstrap: &str, port: u16, plugins: &Path) -> String {
    format!(
        "\
bootstrap.servers={bootstrap}
group.id=connect
listeners=http://127.0.0.1:{port}
plugin.path={}
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=_connect-configs
offset.storage.topic=_connect-offsets
status.storage.topic=_connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
offset.flush.interval.ms=500
scheduled.rebalance.max.delay.ms=0
",
        plugins.display()
    )
}
