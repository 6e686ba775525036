//! The relay of the quick start: it ships the shop's outbox to Kafka.

use std::{process::ExitCode, time::Duration};

use outbox_relay::{
    Relay,
    config::{Config, Http},
};

use crate::consumer::parent_gone;

/// How the story starts the relay: `quickstart relay BOOTSTRAP DATABASE`.
pub(crate) const COMMAND: &str = "relay";

/// The relay's configuration. A real one comes from a file, see docs/relay.md.
fn config(bootstrap: &str, database: &str) -> Config {
    let mut config = Config::new(bootstrap, format!("sqlite:{database}"));
    config.kafka.topic = "deposits".into();
    config.http = Http::off();
    config.batch.events_max = 100;
    config.wake.poll_interval = Duration::from_millis(20);
    // Short, so that a killed relay is soon missed. Not for production.
    config.relay.lease = Duration::from_secs(1);
    config
}

pub(crate) async fn run(arguments: Vec<String>) -> ExitCode {
    let [bootstrap, database] = arguments.as_slice() else {
        eprintln!("usage: quickstart {COMMAND} BOOTSTRAP DATABASE");
        return ExitCode::FAILURE;
    };
    match Relay::builder(config(bootstrap, database)).build().await {
        Ok(relay) => {
            relay.run(parent_gone()).await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
