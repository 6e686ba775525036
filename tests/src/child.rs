//! A child process that a test may kill, freeze and wake.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use xtask::server::{Note, Process};

use crate::run_folder::{remove, run_folder, unique_name};
use crate::{eventually, until_some};

/// A running program, with what it prints in a file. Killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    name: String,
    child: Child,
    process: Process,
    log: PathBuf,
}

impl Worker {
    /// Starts a program.
    pub fn spawn(command: &mut Command) -> Self {
        let name = unique_name("worker");
        let log = run_folder().join(format!("{name}.log"));
        let output = File::create(&log).expect("the run's folder takes files");
        Self::with_output(command, name, log, output)
    }

    /// The same, with what it prints at the end of a file that others have begun.
    pub fn spawn_onto(command: &mut Command, log: &Path) -> Self {
        let output = OpenOptions::new().create(true).append(true).open(log);
        let output = output.expect("the log takes more");
        Self::with_output(command, unique_name("worker"), log.to_path_buf(), output)
    }

    fn with_output(command: &mut Command, name: String, log: PathBuf, output: File) -> Self {
        let errors = output.try_clone().expect("a file has two owners");
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let process = Process::of(child.id()).expect("a child is known until it is waited for");
        Note::write(run_folder(), &name, &process, "KILL").expect("the run's folder takes notes");
        Self { name, child, process, log }
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `kill -9`; returns when it is gone.
    pub fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Freezes it (SIGSTOP).
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Wakes it (SIGCONT).
    pub fn resume(&self) {
        self.process.signal("CONT");
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.process.signal("TERM");
    }

    /// Asks it to end as Ctrl-C does (SIGINT).
    pub fn interrupt(&self) {
        self.process.signal("INT");
    }

    /// Whether it has not ended.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    pub async fn ended(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("process {} ends", self.pid());
        until_some(deadline, &what, async || self.child.try_wait().ok().flatten()).await
    }

    /// What it has printed so far, both streams together.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until it has printed a text.
    pub async fn printed(&self, deadline: Duration, text: &str) {
        let what = format!("process {} prints {text:?}", self.pid());
        eventually(deadline, &what, async || self.log().contains(text)).await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            eprintln!("── the end of what {} (pid {}) printed\n{tail}\n──", self.name, self.pid());
        }
        remove(&self.name);
    }
}
