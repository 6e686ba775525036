//! The program as a user has it: what has no default in a file, a port for HTTP, and nothing else.

use std::{path::PathBuf, process::Command, sync::Arc};

use tempfile::TempDir;
use xtask::server::free_ports;

use crate::{Executable, Stage, Supervised, Worker, limit_memory};

/// A configuration, and where its processes log to.
#[derive(Clone, Debug)]
pub(super) struct Program {
    worker: Executable,
    folder: Arc<TempDir>,
    /// Where HTTP is served.
    pub(super) port: u16,
    /// The most memory of a process, in KiB of addresses.
    memory_max: Option<u64>,
}

impl Program {
    /// For a stage's topic and schema; everything else is left to the defaults.
    ///
    /// `instance` is the one key that has a default, and that whoever wants restarts without a wait sets.
    pub(super) fn of(worker: &Executable, stage: &Stage, instance: Option<&str>) -> Self {
        let [port] = free_ports().expect("the machine has a free port");
        let folder = TempDir::new().expect("a folder for the configuration");
        let instance = instance.map(|it| format!("instance_id = {it:?}\n")).unwrap_or_default();
        let text = format!(
            "[consumer]\nname = {:?}\n{instance}[kafka]\nbootstrap = {:?}\ntopics = [{:?}]\n[database]\nurl = {:?}\n\
             [http]\nlisten = \"127.0.0.1:{port}\"\n",
            stage.config.consumer.name,
            stage.topic.bootstrap(),
            stage.topic.name(),
            stage.schema.url()
        );
        std::fs::write(folder.path().join("consumer.toml"), text).expect("the folder takes files");
        Self { worker: worker.clone(), folder: Arc::new(folder), port, memory_max: None }
    }

    /// Each process may have so many KiB of addresses.
    pub(super) fn with_memory(self, kib: u64) -> Self {
        Self { memory_max: Some(kib), ..self }
    }

    /// What all its processes have logged.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// A command of it; no key of the configuration comes from this process's environment.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = match self.memory_max {
            None => self.worker.command(),
            Some(kib) => limit_memory(&self.worker.command(), kib),
        };
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if (text.starts_with("INBOX_") && text.contains("__")) || text == "INBOX_CONFIG" {
                command.env_remove(&name);
            }
        }
        command.args(args).arg("--config").arg(self.folder.path().join("consumer.toml"));
        command.current_dir(self.folder.path());
        command
    }

    /// Starts a process of it.
    pub(super) fn start(&self) -> Worker {
        Worker::spawn_onto(&mut self.command(&["run"]), &self.log())
    }

    /// Starts a process of it, and another one at once whenever one ends.
    pub(super) fn supervised(&self) -> Supervised {
        let program = self.clone();
        Supervised::start(move || program.start())
    }
}
