//! The quick start: the whole job with nothing installed.
//!
//! A Kafka broker inside this process (librdkafka's mock), an SQLite inbox, consumers as child processes.
//! Some events are sent twice, one consumer is killed with `kill -9` in the middle, another joins. At the
//! end a table computed from the database says whether each effect happened once, in order.

mod consumer;
mod ledger;
mod story;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(consumer::COMMAND) {
        return consumer::run(arguments.collect()).await;
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
