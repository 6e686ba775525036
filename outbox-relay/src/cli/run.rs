//! `run`: ships until a signal.

use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, Terminal, refused};
use crate::{Ended, Relay, config::Config, telemetry::Signal};

/// Ships until SIGTERM or SIGINT; a second one ends at once, which loses nothing.
pub(super) async fn run(config: Config, terminal: &mut Terminal<'_>) -> Exit {
    for doubt in config.validate() {
        Signal::Doubtful { reason: doubt.text }.emit();
    }
    let (first, second) = match (Signals::new(), Signals::new()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => {
            terminal.complain(format!("signals cannot be caught: {error}"));
            return Exit::Runtime;
        }
    };
    let relay = match Relay::builder(config).build().await {
        Ok(relay) => relay,
        Err(error) => return refused(&error, terminal),
    };
    tokio::select! {
        ended = relay.run(first.received(1)) => told(&ended, terminal),
        () = second.received(2) => {
            terminal.complain("a second signal ended the relay before its last batch was marked; nothing is lost");
            Exit::Runtime
        }
    }
}

fn told(ended: &Ended, terminal: &mut Terminal<'_>) -> Exit {
    match ended {
        Ended::Shutdown => Exit::Done,
        Ended::ShutdownCutShort => {
            terminal.warn(ended.to_string());
            Exit::Done
        }
        Ended::KafkaRefused(_) => {
            terminal.complain(ended.to_string());
            Exit::Kafka
        }
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Resolves when `times` signals have come.
    async fn received(mut self, times: usize) {
        for _ in 0..times {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        }
    }
}
