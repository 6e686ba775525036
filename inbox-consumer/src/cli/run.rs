//! `run`: consumes until a signal.

use inbox_settings::cli::Signals;

use super::{Exit, Terminal};
use crate::{
    Consumer, Routes,
    config::Config,
    consumer::{BuildError, Ended},
    pipeline::port::Store,
    telemetry::Signal,
};

/// Consumes until SIGTERM or SIGINT; a second one ends without waiting for the drain, which loses
/// nothing.
pub(super) async fn run<DB: Store>(
    config: Config,
    routes: Routes<DB>,
    terminal: &mut Terminal<'_>,
) -> Exit {
    for doubt in config.validate() {
        Signal::Doubtful { reason: doubt.text }.emit();
    }
    let (first, second) = match Signals::both(terminal) {
        Ok(both) => both,
        Err(exit) => return exit,
    };
    let consumer = match Consumer::builder(config, routes).build().await {
        Ok(consumer) => consumer,
        Err(error) => {
            terminal.complain(error.to_string());
            return refused(&error);
        }
    };
    tokio::select! {
        ended = consumer.run(first.received(1)) => told(&ended, terminal),
        () = second.received(2) => {
            terminal.complain("a second signal ended the consumer before it had let go; nothing is lost");
            Exit::Runtime
        }
    }
}

fn refused(error: &BuildError) -> Exit {
    match error {
        BuildError::Config(_) | BuildError::Routes(_) | BuildError::Declared(_) => Exit::Usage,
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
        Ended::Panicked(_) => {
            terminal.complain(ended.to_string());
            Exit::Runtime
        }
    }
}
