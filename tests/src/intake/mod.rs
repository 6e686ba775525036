//! An HTTP intake inside of a test: a consumer without Kafka, its router on a port, and a client.
//!
//! One story: its files know each other.

mod client;
pub mod scenarios;
pub mod speed;
pub mod torn;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use inbox_consumer::{
    Consumer, Event, GapEnd, Handler, HandlerError, HandlerResult, Intake, Routes, Tx,
    VersionPolicy, config::Config, pipeline::port::Store,
};
use serde::Deserialize;
use sqlx::{AssertSqlSafe, Postgres, Sqlite};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};

pub use client::{Answer, Client};

/// What a test asks the database besides.
#[async_trait]
pub trait Look: Send + Sync {
    /// The one number that a query returns.
    async fn number(&self, sql: &str) -> i64;
    /// Runs statements.
    async fn run(&self, sql: &str);
}

#[async_trait]
impl Look for crate::Schema {
    async fn number(&self, sql: &str) -> i64 {
        Self::number(self, sql).await
    }

    async fn run(&self, sql: &str) {
        Self::run(self, sql).await;
    }
}

/// A file of SQLite.
#[derive(Debug)]
pub struct File {
    _folder: tempfile::TempDir,
    url: String,
    pool: sqlx::SqlitePool,
}

impl File {
    /// A new one, to be migrated.
    pub async fn create() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}/inbox.db", folder.path().display());
        let pool = sqlx::SqlitePool::connect(&format!("{url}?mode=rwc")).await.expect("a file");
        Self { _folder: folder, url, pool }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }
}

#[async_trait]
impl Look for File {
    async fn number(&self, sql: &str) -> i64 {
        let row = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await;
        row.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    async fn run(&self, sql: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await;
        done.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
}

/// What the handler's payload tells it.
#[derive(Deserialize)]
struct Step {
    n: i64,
    #[serde(default)]
    act: String,
}

/// Writes a row for each event, and fails where its payload and the switch say so.
struct Acts(Arc<Switches>);

/// What a test tells its handlers, and they it.
#[derive(Debug, Default)]
pub struct Switches {
    /// While it is set, handlers fail that are told to.
    failing: AtomicBool,
    /// Whether one waits until it is.
    holding: AtomicBool,
}

impl Acts {
    async fn act(&self, act: &str) -> HandlerResult {
        let fails = self.0.failing.load(Ordering::SeqCst);
        match act {
            "mendable" if fails => Err(HandlerError::retry("told to fail")),
            "rejected" | "holds" if fails => Err(HandlerError::reject("told to reject")),
            "panics" if fails => panic!("told to panic"),
            "holds" => {
                self.0.holding.store(true, Ordering::SeqCst);
                while !self.0.failing.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                self.0.holding.store(false, Ordering::SeqCst);
                Ok(())
            }
            "slow" => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The tables of effects, in both databases.
pub const EFFECTS: &str =
    "CREATE TABLE effects (seq integer, event_id text, aggregate text, n bigint)";

macro_rules! acts {
    ($db:ty) => {
        impl Handler<$db> for Acts {
            type Event = Step;

            async fn handle(&self, event: &Event<Step>, tx: &mut Tx<'_, $db>) -> HandlerResult {
                sqlx::query(
                    "INSERT INTO effects (seq, event_id, aggregate, n)
                     SELECT count(*), $1, $2, $3 FROM effects",
                )
                .bind(event.id().to_string())
                .bind(event.aggregate().aggregate_id().to_owned())
                .bind(event.payload.n)
                .execute(&mut *tx)
                .await?;
                let act = event.payload.act.as_str();
                if matches!(act, "commits" | "commits_and_waits") {
                    // Not its own to end.
                    let past = tx.unguarded().await?;
                    sqlx::raw_sql("COMMIT").execute(&mut *past).await?;
                    let passing = "SELECT count(*) FROM effects WHERE n = $1";
                    while act == "commits_and_waits" {
                        let passing = sqlx::query_scalar::<_, i64>(passing).bind(torn::PASSING);
                        if passing.fetch_one(&mut *past).await? > 0 {
                            break;
                        }
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    return Ok(());
                }
                self.act(act).await
            }
        }
    };
}
acts!(Postgres);
acts!(Sqlite);

/// The routes of a server in a test, on a database that has handlers here.
pub trait Acted: Store + Sized {
    /// Events of the type `Counted` go to the handler that the switch makes fail, those of `Versioned` in the order of
    /// their versions.
    fn routes(switches: Arc<Switches>) -> Routes<Self>;
}

fn in_order() -> VersionPolicy {
    VersionPolicy::gap(Duration::from_mins(1), GapEnd::Park).first(1)
}

impl Acted for Postgres {
    fn routes(switches: Arc<Switches>) -> Routes<Self> {
        let counted = Routes::default().on("Counted", Acts(Arc::clone(&switches)));
        counted.on("Versioned", Acts(switches)).versions("Versioned", in_order()).ignore("Ignored")
    }
}

impl Acted for Sqlite {
    fn routes(switches: Arc<Switches>) -> Routes<Self> {
        let counted = Routes::default().on("Counted", Acts(Arc::clone(&switches)));
        counted.on("Versioned", Acts(switches)).versions("Versioned", in_order()).ignore("Ignored")
    }
}

/// A configuration without Kafka.
#[must_use]
pub fn config(name: &str, url: &str) -> Config {
    let mut config = Config::new(name, "", Vec::<String>::new(), url);
    config.intake.listen = "mounted".into();
    config
}

/// A running intake.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    switches: Arc<Switches>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
    _upkeep: JoinSet<()>,
}

impl Server {
    /// On a database with tables.
    pub async fn start<DB: Acted>(config: Config) -> Self {
        Self::start_with::<DB>(config, true).await
    }

    /// The same without what has to run beside it: nothing is released, and its partition is not looked at.
    pub async fn start_bare<DB: Acted>(config: Config) -> Self {
        Self::start_with::<DB>(config, false).await
    }

    async fn start_with<DB: Acted>(config: Config, with_upkeep: bool) -> Self {
        let switches = Arc::new(Switches::default());
        let consumer = Consumer::builder(config, DB::routes(Arc::clone(&switches))).build().await;
        let consumer = consumer.expect("the configuration is right");
        let intake: Intake<DB> = consumer.intake().await.expect("the database has the tables");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let mut upkeep = JoinSet::new();
        let beside = intake.clone();
        if with_upkeep {
            upkeep.spawn(async move { beside.run().await });
        }
        let served = tokio::spawn(async move {
            intake.serve(listener, async { drop(stopped.await) }).await;
        });
        Self { address, switches, stop: Some(stop), served: Some(served), _upkeep: upkeep }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::new(&self.address.to_string())
    }

    /// Makes handlers fail that are told to, or not.
    pub fn fail(&self, failing: bool) {
        self.switches.failing.store(failing, Ordering::SeqCst);
    }

    /// Whether a handler holds its transaction open until it is to fail.
    pub fn holds(&self) -> bool {
        self.switches.holding.load(Ordering::SeqCst)
    }

    /// Has it end, and waits for that.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(served) = self.served.take() {
            served.await.expect("the server does not panic");
        }
    }
}
