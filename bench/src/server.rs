//! A PostgreSQL server of the bench's own, a database for each run, and what it tells of a run.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use xtask::failure::{Explain as _, Failure, Outcome, failure};
use xtask::server::{Postgres, StopMode};
use xtask::usage;

use crate::candidate::Inbox;
use crate::grown;
use crate::plan::PARTITIONS;
use crate::scenario::Case;

/// As a careful operator would set a server for such work. Everything about durability is as it comes. The
/// times of commits are how a run is measured; they cost the same for everybody.
const SETTINGS: &str = "
shared_buffers = 2GB
max_wal_size = 8GB
wal_level = replica
track_commit_timestamp = on
";

/// The effects: one row per account. `disorder` counts events that did not follow the one before them.
const ACCOUNTS: &str = "CREATE TABLE accounts (
    account       bigint PRIMARY KEY,
    balance       bigint NOT NULL,
    events        bigint NOT NULL,
    last_sequence bigint NOT NULL,
    disorder      bigint NOT NULL
)";

/// The inbox that people write.
const PLAIN_INBOX: &str = "CREATE TABLE inbox (
    event_id     uuid PRIMARY KEY,
    processed_at timestamptz NOT NULL DEFAULT now()
)";

/// Rows of a run are younger than that; rows that were there before are made older.
pub(crate) const YOUNG: &str = "interval '12 hours'";
/// The bench's own session in the database of a run.
const OBSERVER: &str = "observer";
/// How long a candidate's sessions may take to end.
const SESSIONS_WAIT: Duration = Duration::from_millis(20);
const SESSIONS_LOOKS: u32 = 250;

/// The server; ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    postgres: Postgres,
    admin: Client,
    runs: AtomicU32,
}

/// A database for one run.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) url: String,
    client: Client,
}

/// When a run began and ended by the database's clock, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) began: f64,
    pub(crate) ended: f64,
}

impl Server {
    /// Starts it in the folder of this run, with further settings.
    pub(crate) async fn start(further: &str) -> Outcome<Self> {
        let binaries = PathBuf::from(variable("INBOX_TEST_PG_BIN")?);
        let folder = PathBuf::from(variable("INBOX_TEST_FOLDER")?);
        let mark = if further.is_empty() { "" } else { "-further" };
        let name = format!("bench-{}{mark}", std::process::id());
        let settings = format!("{SETTINGS}{further}");
        let started = tokio::task::spawn_blocking(move || {
            let postgres = Postgres::create(&folder, &name, &binaries, &settings)?;
            postgres.start().map(|()| postgres)
        });
        let postgres = started.await.explain(|| "PostgreSQL was not started".to_owned())??;
        let admin = connected(&postgres.url()).await?;
        Ok(Self { postgres, admin, runs: AtomicU32::new(0) })
    }

    /// Ends it and removes its files. After a run that went wrong they stay, with the server's log.
    pub(crate) fn end(self) -> Outcome {
        let files = self.postgres.cluster();
        drop(self);
        fs::remove_dir_all(&files).explain(|| format!("cannot remove {}", files.display()))
    }

    /// A number that no other run has.
    pub(crate) fn next_run(&self) -> u32 {
        self.runs.fetch_add(1, Relaxed)
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.postgres.port()
    }

    /// A fresh database with the tables of a run, after a checkpoint: no run pays for the one before it.
    pub(crate) async fn database(
        &self,
        name: &str,
        inbox: Inbox,
        case: &Case,
    ) -> Outcome<Database> {
        if case.grown == 0 {
            let database = self.create(name, "").await?;
            database.make_tables(inbox).await?;
            return self.readied(database, case).await;
        }
        let template = grown::template(self, inbox, case).await?;
        // The files are copied, not written once more through the log.
        let from = format!("TEMPLATE {template} STRATEGY FILE_COPY");
        let database = self.create(name, &from).await?;
        grown::warm(&database, inbox).await?;
        self.readied(database, case).await
    }

    /// A database, as `CREATE DATABASE` makes it with these words.
    pub(crate) async fn create(&self, name: &str, words: &str) -> Outcome<Database> {
        self.run(&format!("CREATE DATABASE {name} {words}")).await?;
        let server = self.postgres.url();
        let (server, _) = server.rsplit_once('/').unwrap_or((&server, ""));
        let url = format!("{server}/{name}");
        let client = connected(&format!("{url}?application_name={OBSERVER}")).await?;
        Ok(Database { name: name.to_owned(), url, client })
    }

    async fn readied(&self, database: Database, case: &Case) -> Outcome<Database> {
        if case.slow_flush {
            // The server sleeps while it holds the lock of the log: a disk that takes its time.
            for setting in ["commit_delay = 1000", "commit_siblings = 0"] {
                self.run(&format!("ALTER DATABASE {} SET {setting}", database.name)).await?;
            }
        }
        self.run("CHECKPOINT").await?;
        Ok(database)
    }

    /// Whether there is a database of this name.
    pub(crate) async fn has(&self, name: &str) -> Outcome<bool> {
        let sql = "SELECT FROM pg_database WHERE datname = $1";
        let found = self.admin.query_opt(sql, &[&name]).await;
        Ok(found.explain(|| "cannot look for a database".to_owned())?.is_some())
    }

    /// Gives a database another name, and closes the bench's session in it.
    pub(crate) async fn rename(&self, database: Database, name: &str) -> Outcome {
        let old = database.name.clone();
        drop(database);
        let end = format!(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{old}'"
        );
        self.run(&end).await?;
        self.run(&format!("ALTER DATABASE {old} RENAME TO {name}")).await
    }

    /// Removes the database of a run.
    pub(crate) async fn remove(&self, database: Database) -> Outcome {
        let name = database.name.clone();
        drop(database);
        self.run(&format!("DROP DATABASE {name} WITH (FORCE)")).await
    }

    /// Transactions that a database has committed. A session counts its own when it ends, so this waits
    /// until those of the candidate have.
    pub(crate) async fn transactions(&self, database: &Database) -> Outcome<i64> {
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = $1 AND backend_type = 'client backend' AND application_name <> $2";
        for _ in 0..SESSIONS_LOOKS {
            let row = self.admin.query_one(others, &[&database.name, &OBSERVER]).await;
            if row.explain(statistics)?.get::<_, i64>(0) == 0 {
                break;
            }
            tokio::time::sleep(SESSIONS_WAIT).await;
        }
        self.committed(database).await
    }

    /// Those that sessions have counted by now.
    pub(crate) async fn committed(&self, database: &Database) -> Outcome<i64> {
        let committed = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
        let row = self.admin.query_one(committed, &[&database.name]).await;
        Ok(row.explain(statistics)?.get(0))
    }

    /// Processor time of the server so far.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        let process = self.postgres.process();
        let process = process.ok_or_else(|| Failure("PostgreSQL has ended".to_owned()))?;
        usage::family_cpu(process.pid())
    }

    /// Runs a statement outside of all runs.
    pub(crate) async fn run(&self, sql: &str) -> Outcome {
        self.admin.batch_execute(sql).await.map_err(|error| refused(sql, &error))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.postgres.stop(StopMode::Immediate);
    }
}

impl Database {
    /// The tables of the effects, and the inbox of those who do not bring their own.
    pub(crate) async fn make_tables(&self, inbox: Inbox) -> Outcome {
        self.run(ACCOUNTS).await?;
        if inbox == Inbox::Plain { self.run(PLAIN_INBOX).await } else { Ok(()) }
    }

    /// Runs statements, separated by semicolons.
    pub(crate) async fn run(&self, sql: &str) -> Outcome {
        self.client.batch_execute(sql).await.map_err(|error| refused(sql, &error))
    }

    /// The one row that a query returns.
    pub(crate) async fn row(&self, sql: &str) -> Outcome<tokio_postgres::Row> {
        self.client.query_one(sql, &[]).await.map_err(|error| refused(sql, &error))
    }

    /// All rows that a query returns.
    pub(crate) async fn rows(&self, sql: &str) -> Outcome<Vec<tokio_postgres::Row>> {
        self.client.query(sql, &[]).await.map_err(|error| refused(sql, &error))
    }

    /// From the beginning of the first transaction that claimed to the last commit of an effect. Rows that
    /// were there before are older.
    pub(crate) async fn span(&self, inbox: Inbox) -> Outcome<Span> {
        let sql = format!(
            "SELECT extract(epoch FROM (SELECT min(processed_at) FROM {} WHERE processed_at > now() - {YOUNG}))::float8,
                    extract(epoch FROM (SELECT max(pg_xact_commit_timestamp(xmin)) FROM accounts))::float8",
            inbox.table()?
        );
        let row = self.row(&sql).await?;
        match (row.get(0), row.get(1)) {
            (Some(began), Some(ended)) => Ok(Span { began, ended }),
            _ => failure("the run left no effect in the database"),
        }
    }

    /// When the last effect was committed among accounts on other partitions than account 0, in seconds since 1970.
    pub(crate) async fn last_effect_elsewhere(&self) -> Outcome<f64> {
        let sql = format!(
            "SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::float8 FROM accounts
             WHERE account % {PARTITIONS} <> 0"
        );
        let last: Option<f64> = self.row(&sql).await?.get(0);
        last.map_or_else(|| failure("no other partition had an effect"), Ok)
    }

    /// When each event's effect was committed, in seconds since 1970.
    pub(crate) async fn commits(&self, inbox: Inbox) -> Outcome<HashMap<Uuid, f64>> {
        let sql = format!(
            "SELECT event_id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM {}",
            inbox.table()?
        );
        Ok(self.rows(&sql).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

/// What the server said: the error itself says no more than that there was one.
fn refused(sql: &str, error: &tokio_postgres::Error) -> Failure {
    let said = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
    Failure(format!("PostgreSQL refuses `{sql}`: {said}"))
}

fn statistics() -> String {
    "cannot read the server's statistics".to_owned()
}

/// A connection that lives as long as its client.
pub(crate) async fn connected(url: &str) -> Outcome<Client> {
    let connecting = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connecting.explain(|| "cannot reach PostgreSQL".to_owned())?;
    // Ends with its client; what goes wrong before that is an error of the client's calls.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// What `cargo xtask bench` says in the environment.
pub(crate) fn variable(name: &str) -> Outcome<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        Failure(format!(
            "{name} is not set: run the bench with `cargo xtask bench`, which starts the services"
        ))
    })
}
