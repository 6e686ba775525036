//! The relay: built from a configuration, run until it is told to end. The only place that names both
//! the databases and Kafka.

use std::{fmt, sync::Arc, sync::atomic::Ordering::Relaxed};

use tokio::sync::watch;

#[cfg(feature = "postgres")]
use crate::feed::{PgConnectOptions, Postgres};
#[cfg(feature = "sqlite")]
use crate::feed::{Sqlite, SqliteConnectOptions};
use crate::{
    build_error::BuildError,
    config::{Config, DatabaseKind, Problem},
    destination::{self, Destination, Sink},
    ended::Ended,
    format::Format,
    holder,
    port::{Address, OpenError, Openings, Relays, Sessions, WakeSignals, whole},
    pump::{Pump, PumpEnd, PumpOptions, RetryRules},
    sink::SinkSettings,
    telemetry::{Counters, Meters, Readings, Signal},
    watch::Watch,
};

/// How to connect to the database, in the driver's words, for services that have that already.
#[derive(Clone)]
#[non_exhaustive]
pub enum DatabaseOptions {
    /// PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Box<PgConnectOptions>),
    /// SQLite.
    #[cfg(feature = "sqlite")]
    Sqlite(Box<SqliteConnectOptions>),
}

impl fmt::Debug for DatabaseOptions {
    /// Options hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseOptions").finish_non_exhaustive()
    }
}

/// A relay that is ready to run: configuration checked, database reachable and migrated.
#[derive(Debug)]
pub struct Relay {
    config: Config,
    options: DatabaseOptions,
    destinations: Vec<Destination>,
    meters: Arc<Meters>,
}

/// Builds a [`Relay`].
#[derive(Debug)]
pub struct RelayBuilder {
    config: Config,
    options: Option<DatabaseOptions>,
    destinations: Vec<Destination>,
}

/// Calls a generic function for the database that the options name: `on!(options, f(arguments))`.
macro_rules! on {
    ($options:expr, $call:ident ( $settings:ident, $($argument:expr),* ), $address:expr) => {
        match $options {
            #[cfg(feature = "postgres")]
            $crate::relay::DatabaseOptions::Postgres(options) => {
                let $settings = <$crate::feed::Postgres as $crate::port::Sessions>::settings(
                    (**options).clone(), $address,
                );
                Box::pin($call::<$crate::feed::Postgres>($settings, $($argument),*)).await
            }
            #[cfg(feature = "sqlite")]
            $crate::relay::DatabaseOptions::Sqlite(options) => {
                let $settings = <$crate::feed::Sqlite as $crate::port::Sessions>::settings(
                    (**options).clone(), $address,
                );
                Box::pin($call::<$crate::feed::Sqlite>($settings, $($argument),*)).await
            }
        }
    };
}
#[cfg(feature = "cli")]
pub(crate) use on;

impl Relay {
    /// A relay of the outbox that the configuration names.
    pub fn builder(config: Config) -> RelayBuilder {
        RelayBuilder { config, options: None, destinations: Vec::new() }
    }

    /// What the relay has done so far; stays readable while it runs.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.meters.counters)
    }

    /// What can be read off it while it runs: metrics, whether it is live, whether it is ready, each also
    /// as text. The HTTP port (`http.listen`) serves the same. Once this is called, the relay looks every few seconds at
    /// the outbox for it.
    pub fn readings(&self) -> Readings {
        self.meters.want();
        Readings::of(&self.meters)
    }

    /// Takes turns with its like until `shutdown` resolves and everything is let go, or until it cannot go
    /// on.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Ended {
        let Self { config, options, destinations, meters } = self;
        if !config.relay.enabled {
            Signal::Disabled.emit();
            meters.switch_off();
            shutdown.await;
            meters.end();
            return Ended::Shutdown;
        }
        on!(&options, run(settings, (&config, destinations), meters, shutdown), &address(&config))
    }
}

async fn run<F: Relays>(
    settings: F::Settings,
    (config, destinations): (&Config, Vec<Destination>),
    meters: Arc<Meters>,
    shutdown: impl Future<Output = ()> + Send,
) -> Ended {
    let options = match pump_options(config, destinations, &meters) {
        Ok(options) => options,
        Err(why) => return Ended::KafkaRefused(why), // `build` has seen to it
    };
    let watch = Watch::begin::<F>(config, &settings, &meters, &options.sink);
    let (ask, asked) = watch::channel(false);
    let pump = Pump::<F> {
        options,
        settings: settings.clone(),
        signals: WakeSignals::default(),
        counters: Arc::clone(&meters.counters),
        meters: Arc::clone(&meters),
        asked,
    };
    let told = async {
        shutdown.await;
        meters.begin_shutdown();
        Signal::ShutdownBegun.emit();
        let _ = ask.send(true);
        std::future::pending::<()>().await;
    };
    let listening = async {
        if config.wake.notify {
            let troubles = Arc::clone(&pump.options.sink.troubles);
            let meters = Arc::clone(&meters);
            let told = move |listens: Result<(), String>| {
                meters.listens.store(listens.is_ok(), Relaxed);
                troubles.listening(listens);
            };
            F::listen(settings, pump.signals.clone(), told).await;
        }
        std::future::pending::<()>().await;
    };
    let end = tokio::select! {
        end = pump.run() => end,
        () = told => PumpEnd::Shutdown,
        () = listening => PumpEnd::Shutdown,
        () = watch.tick() => PumpEnd::Shutdown,
    };
    drop(watch);
    match end {
        PumpEnd::Shutdown => Ended::Shutdown,
        PumpEnd::CutShort => Ended::ShutdownCutShort,
        PumpEnd::KafkaFatal(why) => Ended::KafkaRefused(why),
    }
}

impl RelayBuilder {
    /// Connects with these options instead of the address that the configuration names. A server on another
    /// machine is verified, unless they or `database.tls` say otherwise.
    #[must_use]
    pub fn database(mut self, options: DatabaseOptions) -> Self {
        if self.config.database.url.is_empty() {
            // Only to say which database it is.
            self.config.database.url = match &options {
                #[cfg(feature = "postgres")]
                DatabaseOptions::Postgres(_) => "postgres:".into(),
                #[cfg(feature = "sqlite")]
                DatabaseOptions::Sqlite(_) => "sqlite:".into(),
            };
        }
        self.options = Some(options);
        self
    }

    /// Adds a destination under the name by which `[[routes]]` mean it.
    #[must_use]
    pub fn destination(mut self, name: impl Into<String>, sink: impl Sink) -> Self {
        self.destinations.push(Destination {
            name: name.into(),
            sink: Arc::new(sink),
            one_scope: false,
        });
        self
    }

    /// Checks everything that can be checked before the first turn.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub async fn build(self) -> Result<Relay, BuildError> {
        let Self { config, options, destinations } = self;
        let fatal = |problem: &Problem| problem.fatal;
        let problems: Vec<Problem> = config.validate().into_iter().filter(fatal).collect();
        if !problems.is_empty() {
            return Err(BuildError::Config(problems));
        }
        if config.log.database_text {
            outbox_core::internal::show_values();
        }
        let options = match options {
            #[cfg(feature = "postgres")]
            Some(options) => protected(options, &config)?,
            #[cfg(not(feature = "postgres"))]
            Some(options) => options,
            None => options_of(&config)?,
        };
        let (mut all, mut problems) = destination::of(&config);
        all.extend(destinations);
        problems.extend(destination::problems(&config, &all).await);
        let (problems, doubts): (Vec<_>, Vec<_>) = problems.into_iter().partition(fatal);
        if !problems.is_empty() {
            return Err(BuildError::Config(problems));
        }
        for doubt in doubts {
            Signal::Doubtful { reason: doubt.text }.emit();
        }
        let outbox = if config.relay.enabled {
            on!(&options, ready(settings,), &address(&config))?
        } else {
            String::new()
        };
        let names = all.iter().map(|destination| destination.name.clone());
        let meters = Meters::new(outbox, names);
        Ok(Relay { config, options, destinations: all, meters })
    }
}

/// Whether the database is reachable, migrated, and lets a relay do its work; answers which outbox it is.
async fn ready<F: Openings>(settings: F::Settings) -> Result<String, BuildError> {
    let mut session = F::open(&settings).await?;
    let found = match schema_is_current::<F>(&settings, &mut session).await {
        Ok(()) => whole::<F, _>(&settings, &mut session, async |s| F::findings(s).await)
            .await
            .map_err(|error| outage(&error)),
        Err(error) => Err(error),
    };
    F::close_hard(session).await;
    let mut fatal = found?;
    let doubts = fatal.extract_if(.., |it| !it.fatal);
    doubts.for_each(|it| Signal::Doubtful { reason: it.text }.emit());
    if fatal.is_empty() { Ok(F::outbox(&settings)) } else { Err(BuildError::Unsafe(fatal)) }
}

pub(crate) async fn schema_is_current<F: Openings>(
    settings: &F::Settings,
    session: &mut F::Session,
) -> Result<(), BuildError> {
    F::schema_is_there(settings, session).await?;
    let newest = F::newest();
    let version = whole::<F, _>(settings, session, async |s| F::version(s).await).await;
    match version.map_err(|error| outage(&error))? {
        // One version newer is right while a new version is deployed: a migration never breaks the build
        // before it.
        Some(version) if version == newest || version == newest + 1 => Ok(()),
        None => Err(BuildError::Schema(format!(
            "the database has no outbox tables; run the `migrate` command (or `migrate --print` and your \
             own tool) to bring it to version {newest}"
        ))),
        Some(version) if version < newest => Err(BuildError::Schema(format!(
            "the outbox tables have version {version}, this build needs {newest}; run the \
             `migrate` command"
        ))),
        Some(version) => Err(BuildError::Schema(format!(
            "the outbox tables have version {version}, this build supports up to {newest}; deploy \
             the newer build that migrated them"
        ))),
    }
}

fn outage(error: &crate::port::FeedError) -> BuildError {
    let text = format!("database check at startup failed: {error}");
    BuildError::Database(OpenError::Outage(text))
}

/// Options that a service has made itself, with the way to another machine protected as for an address.
#[cfg(feature = "postgres")]
fn protected(options: DatabaseOptions, config: &Config) -> Result<DatabaseOptions, BuildError> {
    match options {
        DatabaseOptions::Postgres(options) => {
            let read = service_kit::PostgresAddress::of(*options, config.database.tls);
            let read = read.map_err(|problem| BuildError::Config(vec![problem]))?;
            Ok(DatabaseOptions::Postgres(Box::new(read.options)))
        }
        #[cfg(feature = "sqlite")]
        options @ DatabaseOptions::Sqlite(_) => Ok(options),
    }
}

/// How to connect to the database that the configuration names.
pub(crate) fn options_of(config: &Config) -> Result<DatabaseOptions, BuildError> {
    let (url, tls) = (config.database.url.expose(), config.database.tls);
    match config.database_kind() {
        #[cfg(feature = "postgres")]
        Ok(DatabaseKind::Postgres) => {
            Ok(DatabaseOptions::Postgres(Box::new(Postgres::options(url, tls)?)))
        }
        #[cfg(feature = "sqlite")]
        Ok(DatabaseKind::Sqlite) => {
            Ok(DatabaseOptions::Sqlite(Box::new(Sqlite::options(url, tls)?)))
        }
        // One that this build leaves out.
        Ok(_) => Err(BuildError::Config(config.validate())),
        Err(problem) => Err(BuildError::Config(vec![problem])),
    }
}

pub(crate) fn address(config: &Config) -> Address<'_> {
    Address {
        schema: config.database.schema.as_deref(),
        application: "outbox-relay",
        statement_cache: usize::from(config.database.statement_cache),
        statement_timeout: config.database.statement_timeout,
    }
}

/// What the sink needs of the configuration.
pub(crate) fn sink_settings(config: &Config) -> SinkSettings {
    SinkSettings {
        bootstrap: config.kafka.bootstrap.clone(),
        transactional_id: None,
        delivery_timeout: config.kafka.delivery_timeout,
        message_bytes_max: config.kafka.message_bytes_max,
        properties: config.kafka.client_settings(),
        troubles: Arc::default(),
    }
}

fn pump_options(
    config: &Config,
    destinations: Vec<Destination>,
    meters: &Meters,
) -> Result<PumpOptions, String> {
    Ok(PumpOptions {
        holder: holder::own(),
        lease: config.relay.lease,
        shared: config.relay.shared,
        routes: destination::routes(config, &destinations)?,
        destinations,
        retry: RetryRules {
            attempts_max: config.retry.attempts_max,
            delay_min: config.retry.delay_min,
            delay_max: config.retry.delay_max,
            outage_delay_max: config.limits.outage_delay_max,
        },
        format: Format::read(config)?,
        events_max: config.batch.events_max,
        bytes_max: config.batch.bytes_max,
        poll_interval: config.wake.poll_interval,
        retention: config.retention.sent,
        prune_interval: config.retention.prune_interval,
        prune_chunk: config.retention.chunk,
        outage_delay_max: config.limits.outage_delay_max,
        shutdown_deadline: config.limits.shutdown_deadline,
        fencing: config.kafka.fencing.then(|| config.kafka.transactional_id_prefix.clone()),
        sink: SinkSettings { troubles: Arc::clone(&meters.troubles), ..sink_settings(config) },
    })
}

/// Brings the outbox tables up to date; answers the versions applied. What the `migrate` command does.
///
/// # Errors
/// When the database cannot be reached, or refuses.
pub async fn migrate(config: &Config) -> Result<Vec<i64>, BuildError> {
    let options = options_of(config)?;
    on!(&options, migrated(settings,), &address(config))
}

async fn migrated<F: Openings>(settings: F::Settings) -> Result<Vec<i64>, BuildError> {
    let mut session = F::open(&settings).await?;
    if let Err(error) = F::schema_is_there(&settings, &mut session).await {
        F::close_hard(session).await;
        return Err(error.into());
    }
    let applied = whole::<F, _>(&settings, &mut session, async |s| F::migrate(s).await).await;
    F::close_hard(session).await;
    applied.map_err(|error| {
        BuildError::Schema(format!(
            "the migration failed and was rolled back: {error}; use a role that may create \
             tables, or run the output of `migrate --print` with your own tool"
        ))
    })
}
