//! The consumer: built from a configuration and routes, run until it is told to end. The only place
//! that names both Kafka and the database.
//!
//! One story: its files know each other.

mod codec;
mod ended;
mod identity;
#[cfg(feature = "intake")]
mod intake;
mod limits;
#[cfg(all(test, feature = "sqlite"))]
mod panic_tests;
mod work;

pub(crate) use codec::payload_codec;
pub use ended::Ended;
#[cfg(feature = "cli")]
pub(crate) use identity::INTAKE_TOPIC;
pub(crate) use identity::{declared, kafka_settings};
pub(crate) use limits::connections;

use std::{fmt, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use inbox_engine::internal::Engine;
use inbox_handler::internal::{CodecsStarted, RouteTable, panic_text};
use inbox_runtime::internal::{
    Control, Driver, DriverEnd, Identity, Meters, Retention, Sessions, Trials, Work,
    count_parked_for_ever, prune_for_ever, watch,
};
use inbox_store::internal::port::{
    self, Address, Finding, Fit, Lanes, OpenError, Operators, Placement, Store,
};
use kafka_kit::internal::{Broker, BrokerEvent};
use outbox_core::Reader;
use tokio::{
    sync::{RwLock, mpsc},
    task::JoinSet,
};

use identity::{owner, placements, start};
use limits::limits;

use crate::{
    Routes,
    config::{Config, Problem, TABLE},
    telemetry::{Counters, Readings, Signal},
};

/// A consumer that is ready to run: configuration checked, database reachable and migrated.
pub struct Consumer<DB: Store> {
    config: Config,
    settings: DB::Settings,
    routes: Arc<RouteTable<DB>>,
    reader: Reader,
    meters: Arc<Meters>,
    trials: Arc<Trials>,
    /// What all transactions of this process hold, whichever way their events come.
    aside: Arc<RwLock<()>>,
}

/// Builds a [`Consumer`].
pub struct ConsumerBuilder<DB: Store> {
    config: Config,
    routes: Routes<DB>,
}

/// Why a consumer could not be built. Each text says what is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration is wrong, or unsafe.
    #[error("{}", sentences(.0))]
    Config(Vec<Problem>),
    /// Two handlers for one event type, or none at all.
    #[error("{0}")]
    Routes(String),
    /// The database cannot be reached, or refuses.
    #[error("{0}")]
    Database(#[from] OpenError),
    /// The inbox tables are missing or of another version.
    #[error("{0}")]
    Schema(String),
    /// A codec cannot get ready.
    #[error("{}", .0.join("\n"))]
    Codec(Vec<String>),
    /// The database does not take the statement of a declared handler.
    #[error("{}", .0.join("\n"))]
    Declared(Vec<String>),
    /// Something about the database makes the promise impossible.
    #[error("{}", findings(.0))]
    Unsafe(Vec<Finding>),
}

fn sentences(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn findings(findings: &[Finding]) -> String {
    findings.iter().map(|finding| finding.text.as_str()).collect::<Vec<_>>().join("\n")
}

impl<DB: Store> fmt::Debug for Consumer<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<DB: Store> fmt::Debug for ConsumerBuilder<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<DB: Store> ConsumerBuilder<DB> {
    /// Checks everything that can be checked before a partition is taken.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub async fn build(self) -> Result<Consumer<DB>, BuildError> {
        let settings = settings::<DB>(&self.config);
        self.build_on(settings).await
    }

    /// The same on the database of these settings. They are looked at after the configuration.
    pub(crate) async fn build_on(
        self,
        settings: Result<DB::Settings, OpenError>,
    ) -> Result<Consumer<DB>, BuildError> {
        let fatal = |problem: &Problem| problem.fatal;
        let problems: Vec<Problem> = self.config.validate().into_iter().filter(fatal).collect();
        if !problems.is_empty() {
            return Err(BuildError::Config(problems));
        }
        if self.config.log.database_text {
            outbox_core::internal::show_values();
        }
        let codec = payload_codec(&self.config)?;
        let routes = self.routes.declare(&declared(&self.config), codec.as_ref());
        let routes = routes.freeze().map_err(BuildError::Routes)?;
        let settings = settings?;
        let mut conn = DB::open(&settings).await?;
        schema_is_current::<DB>(&mut conn).await?;
        let found = DB::findings(&mut conn).await.map_err(outage)?;
        let (fatal, doubts): (Vec<Finding>, Vec<Finding>) =
            found.into_iter().partition(|finding| finding.fatal);
        if !fatal.is_empty() {
            return Err(BuildError::Unsafe(fatal));
        }
        let wrong = routes.refused_statements(&mut conn).await.map_err(outage)?;
        if !wrong.is_empty() {
            return Err(BuildError::Declared(wrong));
        }
        let (settings, doubt) = routes.equip(&mut conn, settings).await;
        let CodecsStarted { refused, missing } = Box::pin(routes.start_codecs()).await;
        if !refused.is_empty() {
            return Err(BuildError::Codec(refused));
        }
        let doubts = doubts.into_iter().map(|doubt| doubt.text);
        for reason in doubts.chain(doubt).chain(missing) {
            Signal::Doubtful { reason }.emit();
        }
        DB::close_hard(conn).await;
        let reader = self.config.reader().map_err(|error| unreadable(&error))?;
        let types = routes.names();
        let types = types.iter().map(|(event_type, _)| *event_type);
        let meters =
            Meters::new(&self.config.consumer.name, types, connections::<DB>(&self.config));
        let (trials, aside) = (Arc::default(), Arc::default());
        let routes = Arc::new(routes);
        Ok(Consumer { config: self.config, settings, routes, reader, meters, trials, aside })
    }
}

/// The settings of the database that the configuration names.
///
/// # Errors
/// When the URL is of another database, or cannot be read.
pub(crate) fn settings<DB: port::Sessions>(config: &Config) -> Result<DB::Settings, OpenError> {
    DB::settings(&Address {
        url: config.database.url.expose(),
        tls: config.database.tls,
        schema: config.database.schema.as_deref(),
        application: &format!("inbox/{}", config.consumer.name),
        statement_cache: usize::from(config.database.statement_cache),
    })
}

pub(crate) async fn schema_is_current<DB: Operators>(
    conn: &mut DB::Connection,
) -> Result<(), BuildError> {
    fits("inbox", DB::version(conn).await.map_err(outage)?, DB::newest())?;
    if !DB::appends(conn).await.map_err(outage)? {
        return Ok(()); // its handlers have nothing to do with those tables
    }
    fits("outbox", DB::outbox_version(conn).await.map_err(outage)?, DB::outbox_newest())
}

/// Whether this build can work with the version of a set of tables.
fn fits(tables: &str, version: Option<i64>, newest: i64) -> Result<(), BuildError> {
    match Fit::of(tables, version, newest) {
        Fit::Own | Fit::Newer(_) => Ok(()),
        Fit::Unfit(text) => Err(BuildError::Schema(text)),
    }
}

/// A wrong rule of `[events.rules]`: [`Config::validate`] finds it first.
fn unreadable(error: &outbox_core::RulesError) -> BuildError {
    let text = format!("[events.rules]: {error}");
    BuildError::Config(vec![Problem { fatal: true, keys: vec!["events.rules.id"], text }])
}

fn outage(error: sqlx::Error) -> BuildError {
    let error = outbox_core::internal::said(&error);
    BuildError::Database(OpenError::Outage(format!("database check at startup failed: {error}")))
}

impl<DB: Store> Consumer<DB> {
    /// A consumer of these events on the database that `DB` names.
    pub fn builder(config: Config, routes: Routes<DB>) -> ConsumerBuilder<DB> {
        ConsumerBuilder { config, routes }
    }

    /// What the consumer has done so far; stays readable while it runs.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.meters.counters)
    }

    /// Everything that can be read off the consumer while it runs: counts, partitions, readiness, metrics
    /// as text. The HTTP port (`http.listen`) serves the same.
    pub fn readings(&self) -> Readings {
        Readings::of(&self.meters)
    }

    /// Ends the process, with the exit code 8, when a handler has blocked its thread for 30 s longer than its time:
    /// nobody else can end it, and other processes take the partitions. The commands do this; a consumer inside of
    /// another service is only told as not ready.
    #[cfg(feature = "cli")]
    pub(crate) fn exit_when_blocked(&self) {
        use service_kit::cli::{Exit, end_now};
        let end: fn(&str) = |error| end_now(Exit::Blocked, error);
        let _ = self.meters.end_when_blocked.set(end);
    }

    /// Runs until `shutdown` resolves and everything is let go, or until it cannot go on.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Ended {
        // Dropped with this future: nobody reads off a consumer that has ended.
        let mut aside = JoinSet::new();
        serve(&self, &mut aside);
        #[cfg(feature = "intake")]
        if self.config.intake.address().is_some() || !self.config.reads_kafka() {
            return self.run_with_intake(shutdown, aside).await;
        }
        self.run_kafka(shutdown, aside).await
    }

    async fn run_kafka(
        self,
        shutdown: impl Future<Output = ()> + Send,
        aside: JoinSet<()>,
    ) -> Ended {
        let (sender, events) = mpsc::unbounded_channel();
        match kafka_kit::internal::connect(kafka_settings(&self.config), sender) {
            Ok(broker) => self.run_on(Arc::new(broker), events, shutdown, aside).await,
            Err(error) => {
                self.meters.end();
                Ended::KafkaFatal(error.0)
            }
        }
    }

    /// The same on a Kafka that is connected.
    async fn run_on(
        self,
        broker: Arc<dyn Broker>,
        mut events: mpsc::UnboundedReceiver<BrokerEvent>,
        shutdown: impl Future<Output = ()> + Send,
        mut aside: JoinSet<()>,
    ) -> Ended {
        self.keep_house(&mut aside);
        let meters = Arc::clone(&self.meters);
        let close_deadline = self.config.limits.close_deadline;
        let (mut driver, work, control) = self.driver(Arc::clone(&broker));
        let _watchdog = watch(Arc::clone(&meters));
        // A fault of the runtime itself: what is open is closed, the group hears of it, and the caller is told.
        let end = AssertUnwindSafe(driver.run(&mut events, shutdown)).catch_unwind().await;
        let end = end.unwrap_or_else(|panic| DriverEnd::Panicked(panic_text(&*panic)));
        let closed = broker.close(close_deadline).await;
        meters.end();
        control.wait_until_idle().await;
        work.sessions.close().await;
        control.sessions.close().await;
        match (end, closed) {
            (DriverEnd::Fatal(error), _) => Ended::KafkaFatal(error),
            (DriverEnd::Panicked(error), _) => Ended::Panicked(error),
            (DriverEnd::Shutdown, Ok(())) => Ended::Shutdown,
            (DriverEnd::Shutdown, Err(error)) => Ended::ShutdownCutShort(error.0),
        }
    }

    /// Retention, and the count of what is parked.
    fn keep_house(&self, aside: &mut JoinSet<()>) {
        let retention = Retention {
            consumer: self.config.consumer.name.clone(),
            age: self.config.retention.inbox,
            audit: self.config.retention.audit,
            interval: self.config.retention.prune_interval,
        };
        let meters = Arc::clone(&self.meters);
        let sessions = Arc::new(Sessions::<DB>::new(self.settings.clone()));
        let counting = (Arc::clone(&sessions), retention.consumer.clone(), Arc::clone(&meters));
        aside.spawn(count_parked_for_ever(counting.0, counting.1, counting.2));
        aside.spawn(prune_for_ever(sessions, retention, meters));
    }

    /// What a consumer is made of, around a Kafka that need not be one.
    pub(crate) fn driver(
        self,
        broker: Arc<dyn Broker>,
    ) -> (Driver<DB>, Arc<Work<DB>>, Arc<Control<DB>>) {
        let config = &self.config;
        let lanes = Lanes {
            count: config.lanes.count,
            placement: Arc::new(Placement::of(self.reader.rules())),
        };
        let identity = Identity {
            consumer: config.consumer.name.clone(),
            owner: owner(config),
            lanes,
            placements: placements(&self.reader, &config.kafka.topics),
            id_scope: config.events.id_scope,
            start: start(config.kafka.start),
        };
        let engine = Engine::new(limits::<DB>(config), service_kit::chance());
        let (meters, incarnation) = (Arc::clone(&self.meters), identity.owner.incarnation);
        let control = Control::new(self.settings.clone(), Arc::clone(&broker), identity);
        let (work, control) = (Arc::new(self.work(incarnation)), Arc::new(control));
        let (shared, asked) = (Arc::clone(&work), Arc::clone(&control));
        (Driver::new(engine, broker, shared, asked, meters), work, control)
    }

    /// This program runs trials (see [`Self::try_events`]) when it is given these arguments.
    #[cfg(feature = "cli")]
    pub(crate) fn enable_trials(&self, arguments: Vec<std::ffi::OsString>) {
        self.trials.enable(arguments);
    }

    /// Runs the events that the process before this one names, and takes back what they did.
    #[cfg(feature = "cli")]
    pub(crate) async fn try_events(self) -> std::io::Result<()> {
        let work = self.work(uuid::Uuid::new_v4());
        #[cfg(feature = "intake")]
        let direct = self.direct().ok();
        #[cfg(not(feature = "intake"))]
        let direct: Option<inbox_runtime::internal::Direct<DB>> = None;
        work.try_events(direct.as_ref()).await
    }
}

/// Brings the tables of inbox and outbox up to date; answers the versions that were applied to the inbox's.
/// What the `migrate` command does.
///
/// # Errors
/// When the database cannot be reached, or refuses.
pub async fn migrate<DB: Store>(config: &Config) -> Result<Vec<i64>, BuildError> {
    let mut conn = DB::open(&settings::<DB>(config)?).await?;
    let applied = DB::migrate(&mut conn).await;
    let beside = match &applied {
        Ok(_) => DB::migrate_outbox_beside(&mut conn).await.map(drop),
        Err(_) => Ok(()),
    };
    DB::close_hard(conn).await;
    let failed = |tables: &str, error: sqlx::Error| {
        let error = outbox_core::internal::said(&error);
        BuildError::Schema(format!("migrating the {tables} tables failed: {error}"))
    };
    let applied = applied.map_err(|error| failed("inbox", error))?;
    beside.map_err(|error| failed("outbox", error))?;
    Ok(applied)
}

/// Serves metrics and health, if the configuration says where.
fn serve<DB: Store>(consumer: &Consumer<DB>, aside: &mut JoinSet<()>) {
    if let Some(listen) = consumer.config.http.address(TABLE.port) {
        aside.spawn(inbox_runtime::internal::serve(listen, consumer.readings()));
    }
}
