//! One run of one candidate, in processes of its own, measured and judged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use xtask::failure::Outcome;

use crate::candidate::{Candidate, Inbox};
use crate::child::Child;
use crate::judge::judge;
use crate::options::Order;
use crate::plan::Expected;
use crate::scenario::{Case, Traffic};
use crate::server::{Database, Server, Span};
use crate::{group, latency, proxy, scale, sqlite, steady};

/// What one run came to.
#[derive(Clone, Debug)]
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
    /// What only this scenario asks for.
    pub(crate) more: BTreeMap<&'static str, f64>,
}

/// Everything that runs have in common.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) kafka: String,
    pub(crate) batch: usize,
}

/// Who runs, and in which program: this one, or another build of it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) candidate: Candidate,
    pub(crate) program: Option<PathBuf>,
}

impl Entry {
    /// The candidate's name, and a mark if it runs in the other program.
    pub(crate) fn name(&self) -> String {
        let mark = if self.program.is_some() { " beside" } else { "" };
        format!("{}{mark}", self.candidate.name())
    }
}

/// A case whose topic is filled.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) case: Case,
    pub(crate) expected: Expected,
}

impl Stage {
    /// Runs a candidate on a database and a group of its own; `number` is a number that no other run has.
    pub(crate) async fn once(
        &self,
        prepared: &Prepared,
        Entry { candidate, program }: Entry,
        number: u32,
    ) -> Outcome<Run> {
        let (case, inbox) = (&prepared.case, candidate.inbox());
        if case.sqlite {
            return sqlite::once(self, prepared, Entry { candidate, program }, number).await;
        }
        let name = format!("run_{number}");
        let database = self.server.database(&name, inbox, case).await?;
        let order = Order { program, ..self.order(case, candidate, &database)? };
        let (cpu, transactions) = (self.server.cpu()?, self.server.transactions(&database).await?);
        let mut more = BTreeMap::new();
        let (worked, sent) = match case.traffic {
            Traffic::Members(pace) => {
                let (worked, figures) =
                    group::run(case.plan, pace, order, &database, inbox).await?;
                more = figures;
                (worked, Vec::new())
            }
            Traffic::Steady(steadily) => {
                let expected = &prepared.expected;
                let where_to_look = (&self.server, &database, inbox);
                let (worked, figures) =
                    steady::run(case.plan, steadily, order, where_to_look, expected).await?;
                more = figures;
                (worked, Vec::new())
            }
            Traffic::Paced(pace) => {
                latency::paced(case.plan, pace, order, &database, inbox).await?
            }
            Traffic::Met => {
                (scale::run(case, order, &database, &prepared.expected).await?, Vec::new())
            }
            Traffic::Backlog => (Child::start(&order)?.said().await?, Vec::new()),
        };
        let transactions = self.server.transactions(&database).await? - transactions;
        let server_cpu = self.server.cpu()?.saturating_sub(cpu);
        judge(&database, inbox, case, &prepared.expected).await?;
        let span = match inbox {
            _ if matches!(case.traffic, Traffic::Steady(_)) => {
                Span { began: worked.began, ended: worked.ended }
            }
            Inbox::None => Span { began: worked.began, ended: worked.ended },
            Inbox::Plain | Inbox::Ours => database.span(inbox).await?,
        };
        more.extend(latency::figures(&database, inbox, &sent).await?);
        if case.plan.skewed && inbox != Inbox::None {
            let took = database.last_effect_elsewhere().await? - span.began;
            more.insert("elsewhere/s", number_of(prepared.expected.elsewhere) / took.max(1e-6));
        }
        self.server.remove(database).await?;
        Ok(Run {
            events_per_s: number_of(case.plan.records) / (span.ended - span.began).max(1e-6),
            cpu_s: worked.cpu_s,
            server_cpu_s: server_cpu.as_secs_f64(),
            rss_mb: number_of(worked.memory) / 1e6,
            transactions: number_of(u64::try_from(transactions).unwrap_or_default()),
            more,
        })
    }

    /// The settings of a candidate's process.
    pub(crate) fn order(
        &self,
        case: &Case,
        candidate: Candidate,
        database: &Database,
    ) -> Outcome<Order> {
        let mut url = database.url.clone();
        if !case.delay.is_zero() {
            let port = self.server.port();
            let further = proxy::start(format!("127.0.0.1:{port}"), case.delay)?;
            url = url.replacen(&format!(":{port}/"), &format!(":{further}/"), 1);
        }
        Ok(Order {
            program: None,
            candidate,
            kafka: self.kafka.clone(),
            topic: case.plan.topic(),
            records: case.plan.records,
            group: format!("bench-{}-{}", std::process::id(), database.name),
            database: url,
            batch: self.batch,
            connections: case.connections,
            slow: case.slow,
            versions: case.versions,
            form: case.plan.form,
            instance: None,
            retention: None,
        })
    }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn number_of(count: u64) -> f64 {
    count as f64
}
