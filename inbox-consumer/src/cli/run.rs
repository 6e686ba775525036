//! `run`: consumes until a signal.

use std::{fmt::Display, time::Duration};

use inbox_store::internal::port::Store;
use service_kit::{
    cli::{FLUSH_MAX, Signals},
    shown_address,
};

use super::{Exit, Terminal, args::PROGRAM};
use crate::{
    Consumer, Routes,
    config::{Config, TABLE},
    consumer::{BuildError, Ended},
    telemetry::Signal,
};

/// Beyond the deadlines of the drain, of Kafka's client and of the last spans, for sessions to be closed.
const END_MARGIN: Duration = Duration::from_secs(5);

/// Logs what starts, with which configuration and addresses.
pub(super) fn report_start(config: &Config, source: String) {
    let listen = config.http.address(TABLE.port);
    Signal::Started {
        program: format!("{} {}", PROGRAM.name, PROGRAM.version),
        configuration: source,
        database: shown_address(&config.database.url),
        kafka: config.kafka.bootstrap.clone(),
        http: listen.map_or_else(|| "off".to_owned(), |address| address.to_string()),
        intake: config.intake.listen.clone(),
    }
    .emit();
}

/// Consumes until SIGTERM or SIGINT; a second one ends without waiting for the drain, which loses
/// nothing.
pub(super) async fn run<DB: Store, E: Display>(
    config: Config,
    set_up: impl Future<Output = Result<Routes<DB>, E>>,
    signals: Signals,
    terminal: &mut Terminal<'_>,
) -> Exit {
    for doubt in config.validate() {
        Signal::Doubtful { reason: doubt.text }.emit();
    }
    let limits = &config.limits;
    let longest = limits.drain_deadline + limits.close_deadline + FLUSH_MAX + END_MARGIN;
    signals.end_within(longest);
    let built = async {
        let routes = set_up.await?;
        Ok::<_, E>(Consumer::builder(config, routes).build().await)
    };
    let built = tokio::select! {
        biased;
        // It has nothing to let go.
        () = signals.clone().received(1) => return Exit::Done,
        built = Box::pin(built) => built,
    };
    let consumer = match built {
        Ok(Ok(consumer)) => consumer,
        Ok(Err(error)) => {
            terminal.complain(error.to_string());
            return refused(&error);
        }
        Err(error) => return set_up_failed(error, terminal),
    };
    consumer.exit_when_blocked();
    consumer.enable_trials(std::env::args_os().skip(1).chain(["--trial".into()]).collect());
    tokio::select! {
        ended = Box::pin(consumer.run(signals.clone().received(1))) => told(&ended, terminal),
        () = signals.clone().received(2) => {
            terminal.complain("exiting on a second signal before all partitions were released; \
                               nothing is lost");
            Exit::Runtime
        }
    }
}

/// The exit after a complaint about handlers that cannot be set up.
pub(super) fn set_up_failed(error: impl Display, terminal: &mut Terminal<'_>) -> Exit {
    terminal.complain(format!("handler setup failed: {error}"));
    Exit::Runtime
}

/// Runs the events that its parent names; see `inbox-runtime/src/pipeline/trial.rs`.
pub(super) async fn trial<DB: Store>(
    config: Config,
    routes: Routes<DB>,
    terminal: &mut Terminal<'_>,
) -> Exit {
    let consumer = match Consumer::builder(config, routes).build().await {
        Ok(consumer) => consumer,
        Err(error) => {
            terminal.complain(error.to_string());
            return refused(&error);
        }
    };
    match consumer.try_events().await {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Runtime,
    }
}

fn refused(error: &BuildError) -> Exit {
    match error {
        BuildError::Codec(_)
        | BuildError::Config(_)
        | BuildError::Declared(_)
        | BuildError::Routes(_) => Exit::Usage,
        BuildError::Database(_) | BuildError::Schema(_) | BuildError::Unsafe(_) => Exit::Database,
    }
}

fn told(ended: &Ended, terminal: &mut Terminal<'_>) -> Exit {
    match ended {
        Ended::Shutdown => Exit::Done,
        Ended::ShutdownCutShort(_) => {
            terminal.warn(ended.to_string());
            Exit::Done
        }
        Ended::KafkaFatal(_) => {
            terminal.complain(ended.to_string());
            Exit::Kafka
        }
        Ended::IntakeFailed(_) | Ended::Panicked(_) => {
            terminal.complain(ended.to_string());
            Exit::Runtime
        }
    }
}
