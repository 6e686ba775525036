//! `run`: ships until a signal.

use service_kit::{cli::Signals, shown_address};

use super::{Exit, Terminal, args::PROGRAM, refused};
use crate::{
    Ended, Relay,
    config::{Config, TABLE},
    telemetry::Signal,
};

/// Logs what starts, with which configuration and addresses.
pub(super) fn report_start(config: &Config, source: String) {
    let listen = config.http.address(TABLE.port);
    Signal::Started {
        program: format!("{} {}", PROGRAM.name, PROGRAM.version),
        configuration: source,
        database: shown_address(&config.database.url),
        kafka: config.kafka.bootstrap.clone(),
        http: listen.map_or_else(|| "off".to_owned(), |address| address.to_string()),
    }
    .emit();
}

/// Ships until SIGTERM or SIGINT; a second one ends at once, which loses nothing.
pub(super) async fn run(config: Config, signals: Signals, terminal: &mut Terminal<'_>) -> Exit {
    for doubt in config.validate() {
        Signal::Doubtful { reason: doubt.text }.emit();
    }
    let built = tokio::select! {
        biased;
        // It has nothing to let go.
        () = signals.clone().received(1) => return Exit::Done,
        built = Relay::builder(config).build() => built,
    };
    let relay = match built {
        Ok(relay) => relay,
        Err(error) => return refused(&error, terminal),
    };
    tokio::select! {
        ended = relay.run(signals.clone().received(1)) => told(&ended, terminal),
        () = signals.clone().received(2) => {
            terminal.complain("exiting on a second signal before the last batch was marked; \
                               nothing is lost");
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
