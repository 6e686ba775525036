//! One run of one candidate, in a process of its own, measured and judged.

use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use xtask::failure::{Explain as _, Failure, Outcome, failure};

use crate::candidate::{Candidate, Inbox};
use crate::judge::judge;
use crate::options::Order;
use crate::plan::Expected;
use crate::server::{Database, Server, Span};

/// A run that takes longer than this stands still.
const RUN_MAX: Duration = Duration::from_mins(10);

/// What the process of a candidate says of itself, as a line of JSON.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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

/// What one run came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) events_per_s: f64,
    /// Processor time of the candidate's process, in seconds.
    pub(crate) cpu_s: f64,
    /// Processor time of PostgreSQL, in seconds.
    pub(crate) server_cpu_s: f64,
    /// Largest resident memory of the candidate's process, in MB.
    pub(crate) rss_mb: f64,
    /// Transactions that the database committed.
    pub(crate) transactions: f64,
}

/// Everything that runs have in common.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) kafka: String,
    pub(crate) topic: String,
    pub(crate) records: u64,
    pub(crate) batch: usize,
    pub(crate) expected: Expected,
}

impl Stage {
    /// Runs a candidate on a database and a group of its own; `number` is a number that no other run has.
    pub(crate) async fn once(&self, candidate: Candidate, number: u32) -> Outcome<Run> {
        let name = format!("run_{number}");
        let database = self.server.database(&name, candidate.inbox()).await?;
        let (cpu, transactions) = (self.server.cpu()?, self.server.transactions(&database).await?);
        let worked = self.work(candidate, &database).await?;
        let transactions = self.server.transactions(&database).await? - transactions;
        let server_cpu = self.server.cpu()?.saturating_sub(cpu);
        let inbox = candidate.inbox();
        judge(&database, inbox, &self.expected).await?;
        let span = match inbox {
            Inbox::None => Span { began: worked.began, ended: worked.ended },
            Inbox::Plain | Inbox::Ours => database.span(inbox).await?,
        };
        self.server.remove(database).await?;
        Ok(Run {
            events_per_s: number_of(self.records) / (span.ended - span.began).max(1e-6),
            cpu_s: worked.cpu_s,
            server_cpu_s: server_cpu.as_secs_f64(),
            rss_mb: number_of(worked.memory) / 1e6,
            transactions: number_of(u64::try_from(transactions).unwrap_or_default()),
        })
    }

    async fn work(&self, candidate: Candidate, database: &Database) -> Outcome<Worked> {
        let order = Order {
            candidate,
            kafka: self.kafka.clone(),
            topic: self.topic.clone(),
            records: self.records,
            group: format!("bench-{}-{}", std::process::id(), database.name),
            database: database.url.clone(),
            batch: self.batch,
        };
        let doing = || format!("cannot run `{}`", candidate.name());
        let program = std::env::current_exe().explain(doing)?;
        let child = Command::new(program)
            .args(order.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .explain(doing)?;
        let output = tokio::time::timeout(RUN_MAX, child.wait_with_output()).await;
        let output = output
            .map_err(|_| Failure(format!("it was not done after {} s", RUN_MAX.as_secs())))?
            .explain(doing)?;
        if !output.status.success() {
            return failure(format!("its process ended with {}", output.status));
        }
        serde_json::from_slice(&output.stdout).explain(|| "what its process says".to_owned())
    }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn number_of(count: u64) -> f64 {
    count as f64
}
