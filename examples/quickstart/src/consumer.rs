//! The consumer of the quick start: this is what a user writes.

use std::{process::ExitCode, time::Duration};

use inbox_consumer::{
    Consumer, Event, Handler, HandlerResult, Routes, Tx,
    config::{Config, Http},
};
use serde::{Deserialize, Serialize};
use sqlx::Sqlite;

/// How the story starts a consumer: `quickstart consume BOOTSTRAP DATABASE`.
pub(crate) const COMMAND: &str = "consume";

/// Money came in.
#[derive(Serialize, Deserialize)]
pub(crate) struct Deposited {
    /// The how manieth deposit of its account it is, from 1.
    pub(crate) n: i64,
    /// How much.
    pub(crate) amount: i64,
}

struct Deposit;

impl Handler<Sqlite> for Deposit {
    type Event = Deposited;

    async fn handle(&self, event: &Event<Deposited>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let account = event.aggregate().aggregate_id();
        sqlx::query("UPDATE accounts SET balance = balance + ?1 WHERE account = ?2")
            .bind(event.payload.amount)
            .bind(account)
            .execute(&mut *tx)
            .await?;
        sqlx::query("INSERT INTO deposits (account, n, amount, process) VALUES (?1, ?2, ?3, ?4)")
            .bind(account)
            .bind(event.payload.n)
            .bind(event.payload.amount)
            .bind(i64::from(std::process::id()))
            .execute(&mut *tx)
            .await?;
        // The machine is too fast for a story.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }
}

/// The consumer's configuration. A real one comes from a file, see docs/configuration.md.
pub(crate) fn config(bootstrap: &str, database: &str) -> Config {
    let mut config = Config::new("ledger", bootstrap, ["deposits"], format!("sqlite:{database}"));
    // Two consumers on one machine: each would want the port for metrics and health.
    config.http = Http::off();
    config.batch.events_max = 50;
    // Short, so that the broker soon notices a killed consumer. Not for production. Not shorter either: the
    // mock gives the members of a group this time less one second to join again (Kafka: five minutes),
    // and they learn of a rebalance with their next heartbeat only.
    config.kafka.session_timeout = Duration::from_millis(2200);
    config.limits.drain_deadline = Duration::from_millis(300);
    config
}

pub(crate) async fn run(arguments: Vec<String>) -> ExitCode {
    let [bootstrap, database] = arguments.as_slice() else {
        eprintln!("usage: quickstart {COMMAND} BOOTSTRAP DATABASE");
        return ExitCode::FAILURE;
    };
    let routes = Routes::default().on("Deposited", Deposit);
    match Consumer::builder(config(bootstrap, database), routes).build().await {
        Ok(consumer) => {
            // The story ends it; a killed parent ends it, too, because its standard input closes.
            consumer.run(parent_gone()).await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Resolves when the story has ended, however it ended.
pub(crate) async fn parent_gone() {
    let wait = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let _ = tokio::task::spawn_blocking(wait).await;
}
