//! A PostgreSQL server of the bench's own, a database for each run, and what it tells of a run.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use xtask::failure::{Explain as _, Failure, Outcome, failure};
use xtask::server::{Postgres, StopMode};

use crate::candidate::Inbox;
use crate::process;

/// As a careful operator would set a server for such work. Everything about durability is as it comes. The
/// times of commits are how a run is measured; they cost the same for everybody.
const SETTINGS: &str = "
shared_buffers = 512MB
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
    /// Starts it in the folder of this run.
    pub(crate) async fn start() -> Outcome<Self> {
        let binaries = PathBuf::from(variable("INBOX_TEST_PG_BIN")?);
        let folder = PathBuf::from(variable("INBOX_TEST_FOLDER")?);
        let name = format!("bench-{}", std::process::id());
        let started = tokio::task::spawn_blocking(move || {
            let postgres = Postgres::create(&folder, &name, &binaries, SETTINGS)?;
            postgres.start().map(|()| postgres)
        });
        let postgres = started.await.explain(|| "PostgreSQL was not started".to_owned())??;
        let admin = connected(&postgres.url()).await?;
        Ok(Self { postgres, admin })
    }

    /// A fresh database with the tables of a run, after a checkpoint: no run pays for the one before it.
    pub(crate) async fn database(&self, name: &str, inbox: Inbox) -> Outcome<Database> {
        self.run(&format!("CREATE DATABASE {name}")).await?;
        let server = self.postgres.url();
        let (server, _) = server.rsplit_once('/').unwrap_or((&server, ""));
        let url = format!("{server}/{name}");
        let client = connected(&format!("{url}?application_name={OBSERVER}")).await?;
        let database = Database { name: name.to_owned(), url, client };
        database.run(ACCOUNTS).await?;
        if inbox == Inbox::Plain {
            database.run(PLAIN_INBOX).await?;
        }
        self.run("CHECKPOINT").await?;
        Ok(database)
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
        let committed = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
        let doing = || "cannot read the server's statistics".to_owned();
        for _ in 0..SESSIONS_LOOKS {
            let row = self.admin.query_one(others, &[&database.name, &OBSERVER]).await;
            if row.explain(doing)?.get::<_, i64>(0) == 0 {
                break;
            }
            tokio::time::sleep(SESSIONS_WAIT).await;
        }
        let row = self.admin.query_one(committed, &[&database.name]).await;
        Ok(row.explain(doing)?.get(0))
    }

    /// Processor time of the server so far.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        let process = self.postgres.process();
        let process = process.ok_or_else(|| Failure("PostgreSQL has ended".to_owned()))?;
        process::family_cpu(process.pid())
    }

    async fn run(&self, sql: &str) -> Outcome {
        self.admin.batch_execute(sql).await.explain(|| format!("PostgreSQL refuses `{sql}`"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.postgres.stop(StopMode::Immediate);
    }
}

impl Database {
    async fn run(&self, sql: &str) -> Outcome {
        self.client.batch_execute(sql).await.explain(|| format!("PostgreSQL refuses `{sql}`"))
    }

    /// The one row that a query returns.
    pub(crate) async fn row(&self, sql: &str) -> Outcome<tokio_postgres::Row> {
        self.client.query_one(sql, &[]).await.explain(|| format!("PostgreSQL refuses `{sql}`"))
    }

    /// All rows that a query returns.
    pub(crate) async fn rows(&self, sql: &str) -> Outcome<Vec<tokio_postgres::Row>> {
        self.client.query(sql, &[]).await.explain(|| format!("PostgreSQL refuses `{sql}`"))
    }

    /// From the beginning of the first transaction that claimed to the last commit of an effect.
    pub(crate) async fn span(&self, inbox: Inbox) -> Outcome<Span> {
        let inbox = match inbox {
            Inbox::Plain => "inbox",
            Inbox::Ours => "inbox_events",
            Inbox::None => return failure("nothing was written to the database"),
        };
        let sql = format!(
            "SELECT extract(epoch FROM (SELECT min(processed_at) FROM {inbox}))::float8,
                    extract(epoch FROM (SELECT max(pg_xact_commit_timestamp(xmin)) FROM accounts))::float8"
        );
        let row = self.row(&sql).await?;
        match (row.get(0), row.get(1)) {
            (Some(began), Some(ended)) => Ok(Span { began, ended }),
            _ => failure("the run left no effect in the database"),
        }
    }
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
