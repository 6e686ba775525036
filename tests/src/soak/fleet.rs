//! The consumers of the soak: killed, frozen, woken, and what they take of the machine.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use crate::{Executable, Worker};

/// One consumer process, and its successors.
#[derive(Debug)]
pub struct Member {
    name: String,
    consumer: Executable,
    worker: Worker,
    /// Highest resident memory of any of them, in bytes.
    rss_max: u64,
}

impl Member {
    /// Starts a consumer with a configuration file.
    pub fn start(consumer: &Executable, name: &str, config: &Path) -> Self {
        let worker = spawn(consumer, config);
        Self { name: name.to_owned(), consumer: consumer.clone(), worker, rss_max: 0 }
    }

    /// `kill -9`, and a new process in its place.
    pub fn kill_and_start(&mut self, config: &Path) {
        println!("kill -9 {} (process {})", self.name, self.worker.pid());
        self.worker.kill();
        self.worker = spawn(&self.consumer, config);
    }

    /// Freezes it for a time that is longer than its session lives, then wakes it.
    pub async fn freeze(&mut self, time: Duration) {
        println!("freeze {} (process {}) for {time:?}", self.name, self.worker.pid());
        self.worker.pause();
        tokio::time::sleep(time).await;
        self.worker.resume();
        println!("wake {}", self.name);
    }

    /// Reads its memory; remembers the highest.
    pub fn measure(&mut self) -> u64 {
        let status = format!("/proc/{}/status", self.worker.pid());
        let text = fs::read_to_string(status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok());
        self.rss_max = self.rss_max.max(kib.unwrap_or(0_u64) * 1024);
        self.rss_max
    }

    /// The share of one core that it takes over a while.
    pub async fn cpu_share(&self, over: Duration) -> f64 {
        let (before, began) = (cpu(self.worker.pid()), Instant::now());
        tokio::time::sleep(over).await;
        (cpu(self.worker.pid()) - before) / began.elapsed().as_secs_f64()
    }

    /// Whether it has not ended by itself.
    pub fn running(&mut self) -> bool {
        self.worker.running()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.worker.log()
    }

    /// Asks it to end and waits.
    pub async fn end(mut self) -> bool {
        self.worker.terminate();
        self.worker.ended(Duration::from_secs(30)).await.success()
    }
}

fn spawn(consumer: &Executable, config: &Path) -> Worker {
    Worker::spawn(consumer.command().arg("run").arg("--config").arg(config))
}

/// Creates the inbox tables that a configuration file needs.
pub fn migrate(consumer: &Executable, config: &Path) {
    let status = consumer.command().arg("migrate").arg("--config").arg(config).status();
    assert!(status.is_ok_and(|status| status.success()), "the inbox tables could not be made");
}

/// CPU seconds that a process has taken so far.
fn cpu(pid: u32) -> f64 {
    xtask::usage::cpu(pid).map_or(0.0, |used| used.as_secs_f64())
}
