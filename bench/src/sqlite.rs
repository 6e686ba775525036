//! Runs on a file of SQLite instead of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;
use xtask::failure::{Explain as _, Outcome};

use crate::candidate::Inbox;
use crate::child::Child;
use crate::judge::{Found, verdict};
use crate::measure::{Entry, Prepared, Run, Stage, number_of};
use crate::options::Order;
use crate::server::variable;

/// The tables of [`crate::server`] as SQLite has them.
const ACCOUNTS: &str = "CREATE TABLE accounts (
    account       INTEGER PRIMARY KEY,
    balance       INTEGER NOT NULL,
    events        INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    disorder      INTEGER NOT NULL
) STRICT";
const PLAIN_INBOX: &str = "CREATE TABLE inbox (
    event_id     BLOB PRIMARY KEY,
    processed_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER))
) STRICT, WITHOUT ROWID";

/// A fresh file; removed when this is dropped.
struct File(PathBuf);

/// Runs a candidate. The rate is from the first row of the inbox to the moment at which the process knows
/// that all is committed: SQLite keeps no times of commits.
pub(crate) async fn once(
    stage: &Stage,
    prepared: &Prepared,
    Entry { candidate, program }: Entry,
    number: u32,
) -> Outcome<Run> {
    let inbox = candidate.inbox();
    let file = File::create(number, inbox)?;
    let case = &prepared.case;
    let order = Order {
        program,
        candidate,
        kafka: stage.kafka.clone(),
        topic: case.plan.topic(),
        records: case.plan.records,
        group: format!("bench-{}-sqlite-{number}", std::process::id()),
        database: format!("sqlite:{}", file.0.display()),
        batch: stage.batch,
        connections: None,
        slow: false,
        versions: case.versions,
        form: case.plan.form,
        instance: None,
        retention: None,
    };
    let worked = Child::start(&order)?.said().await?;
    let (found, began) = file.found(inbox)?;
    verdict(&found, &prepared.expected)?;
    Ok(Run {
        events_per_s: number_of(case.plan.records) / (worked.ended - began).max(1e-6),
        cpu_s: worked.cpu_s,
        server_cpu_s: 0.0,
        rss_mb: number_of(worked.memory) / 1e6,
        transactions: 0.0,
        more: BTreeMap::new(),
    })
}

impl File {
    fn create(number: u32, inbox: Inbox) -> Outcome<Self> {
        let name = format!("bench-{}-{number}.db", std::process::id());
        let file = Self(PathBuf::from(variable("INBOX_TEST_FOLDER")?).join(name));
        let doing = || format!("cannot create {}", file.0.display());
        let connection = Connection::open(&file.0).explain(doing)?;
        connection.pragma_update(None, "journal_mode", "WAL").explain(doing)?;
        connection.execute(ACCOUNTS, ()).explain(doing)?;
        if inbox == Inbox::Plain {
            connection.execute(PLAIN_INBOX, ()).explain(doing)?;
        }
        Ok(file)
    }

    /// What is in it after a run, and when the first row came, in seconds since 1970.
    fn found(&self, inbox: Inbox) -> Outcome<(Found, f64)> {
        let doing = || format!("cannot read {}", self.0.display());
        let connection = Connection::open(&self.0).explain(doing)?;
        let number = |sql: &str| -> Outcome<i64> {
            connection.query_row(sql, (), |row| row.get(0)).explain(doing)
        };
        let mut statement = connection
            .prepare("SELECT account, balance, events, last_sequence, disorder FROM accounts")
            .explain(doing)?;
        let rows = statement.query_map((), |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
        });
        let accounts = rows.explain(doing)?.collect::<Result<_, _>>().explain(doing)?;
        let table = inbox.table()?;
        let claimed = number(&format!("SELECT count(*) FROM {table}"))?;
        let ours = inbox == Inbox::Ours;
        let parked = if ours { number("SELECT count(*) FROM inbox_parked")? } else { 0 };
        let began = number(&format!("SELECT min(processed_at) FROM {table}"))?;
        let began = number_of(u64::try_from(began).unwrap_or_default()) / 1_000.0;
        Ok((Found { accounts, claimed, parked }, began))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let mut name = self.0.clone().into_os_string();
            name.push(end);
            // What is not there need not be removed.
            drop(std::fs::remove_file(name));
        }
    }
}
