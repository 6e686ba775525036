//! The quick start: the whole job with nothing installed.
//!
//! A shop with an outbox in SQLite, a relay, a Kafka broker inside this process (librdkafka's mock),
//! consumers with an inbox in another SQLite file. The relay is killed with `kill -9` after Kafka has its
//! events and before the outbox knows it, so that its successor sends them again; a consumer is killed in
//! the middle of its work, another joins. At the end a table computed from the database says whether each
//! effect happened once, in order.

mod consumer;
mod ledger;
mod relay;
mod shop;
mod story;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    // For the curious: QUICKSTART_LOG=info cargo quickstart
    if let (Some(_), Ok(level)) = (&command, std::env::var("QUICKSTART_LOG")) {
        tracing_subscriber::fmt().with_env_filter(level).with_writer(std::io::stderr).init();
    }
    match command.as_deref() {
        Some(consumer::COMMAND) => return consumer::run(arguments.collect()).await,
        Some(relay::COMMAND) => return relay::run(arguments.collect()).await,
        _ => {}
    }
    match story::tell().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the quick start could not go on: {error}");
            ExitCode::FAILURE
        }
    }
}
