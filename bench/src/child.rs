//! A process of a candidate, as the bench sees it.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use xtask::failure::{Explain as _, Failure, Outcome, failure};
use xtask::usage;

use crate::options::Order;

/// A run that takes longer than this stands still.
const RUN_MAX: Duration = Duration::from_mins(20);

/// What the process says of itself, as a line of JSON.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Worked {
    /// When it had its first record, in seconds since 1970.
    pub(crate) began: f64,
    /// When it had settled the last one.
    pub(crate) ended: f64,
    /// Its processor time by then, in seconds, its start included.
    pub(crate) cpu_s: f64,
    /// Its largest resident memory, in bytes.
    pub(crate) memory: u64,
}

/// The process; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child(tokio::process::Child);

impl Child {
    /// Starts it.
    pub(crate) fn start(order: &Order) -> Outcome<Self> {
        let doing = || format!("cannot run `{}`", order.candidate.name());
        let program = match &order.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().explain(doing)?,
        };
        let mut command = Command::new(program);
        command.args(order.arguments()).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().explain(doing).map(Self)
    }

    /// Its id.
    pub(crate) fn pid(&self) -> Outcome<u32> {
        self.0.id().map_or_else(|| failure("a process has ended"), Ok)
    }

    /// Its processor time so far.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        usage::cpu(self.pid()?)
    }

    /// Tells one that does not know how many records there are that this was all.
    pub(crate) fn end(&mut self) {
        drop(self.0.stdin.take());
    }

    /// What it has done, or why it could not be started; nothing while it works.
    pub(crate) fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        self.0.try_wait().explain(|| "cannot look at a process".to_owned())
    }

    /// Ends it as a crash would.
    pub(crate) async fn kill(mut self) -> Outcome {
        self.0.kill().await.explain(|| "cannot kill a process".to_owned())
    }

    /// Waits until it has ended.
    pub(crate) async fn said(mut self) -> Outcome<Worked> {
        // Waiting would close it, and that means something.
        let stdin = self.0.stdin.take();
        let output = tokio::time::timeout(RUN_MAX, self.0.wait_with_output()).await;
        drop(stdin);
        let output = output
            .map_err(|_| Failure(format!("it was not done after {} s", RUN_MAX.as_secs())))?
            .explain(|| "cannot wait for a process".to_owned())?;
        if !output.status.success() {
            return failure(format!("its process ended with {}", output.status));
        }
        serde_json::from_slice(&output.stdout).explain(|| "what its process says".to_owned())
    }
}
