//! A person who retries parked rows: by the command, as people do.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{process::Command, task::JoinHandle};

use crate::{Executable, Outbox};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// Ends when dropped.
pub(super) struct Person {
    retries: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Person {
    /// Retries what is parked, again and again.
    pub(super) fn start(relay: &Executable, outbox: &Outbox) -> Self {
        let retries = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&retries);
        let mut command = Command::from(outbox.command(relay));
        command.args(["failed", "retry", "--all", "--by", "chaos", "--reason", "it may pass"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(PAUSE).await;
                let Ok(done) = command.output().await else { continue };
                let said = String::from_utf8_lossy(&done.stdout);
                let rows = said.split(' ').next().and_then(|rows| rows.parse().ok());
                counter.fetch_add(rows.unwrap_or(0), Relaxed);
            }
        });
        Self { retries, task }
    }

    /// How many rows were retried.
    pub(super) fn stop(&self) -> u64 {
        self.task.abort();
        self.retries.load(Relaxed)
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.task.abort();
    }
}
