//! Ours: the intake with its defaults, and a handler.

use std::{collections::BTreeMap, net::SocketAddr};

use clap::ValueEnum;
use inbox_consumer::{
    BatchHandler, Consumer, Event, Handler, HandlerResult, Intake, Routes, Tx, migrate, statement,
};
use serde::Deserialize;
use sqlx::Postgres;
use tokio::{net::TcpListener, task::JoinSet};

use super::{Course, UPSERT};
use crate::intake::config;

/// [`UPSERT`] of a whole run, summed up before.
const UPSERT_SUMS: &str = "INSERT INTO accounts AS a (account, balance, events)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
    ON CONFLICT (account) DO UPDATE SET balance = a.balance + excluded.balance, events = a.events + excluded.events";

/// How our handler writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Way {
    /// A statement for each event, awaited.
    Awaited,
    /// The same, queued.
    Queued,
    /// A statement for each run.
    Batch,
}

#[derive(Deserialize)]
struct Deposit {
    account: i64,
    amount: i64,
}

struct Awaited;

impl Handler<Postgres> for Awaited {
    type Event = Deposit;

    async fn handle(&self, event: &Event<Deposit>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let deposit = sqlx::query(UPSERT).bind(event.payload.account).bind(event.payload.amount);
        deposit.execute(tx).await?;
        Ok(())
    }
}

struct Queued;

impl Handler<Postgres> for Queued {
    type Event = Deposit;

    async fn handle(&self, event: &Event<Deposit>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        tx.queue(statement(UPSERT).bind(event.payload.account).bind(event.payload.amount))?;
        Ok(())
    }
}

struct Batch;

impl BatchHandler<Postgres> for Batch {
    type Event = Deposit;

    async fn handle(&self, events: &[Event<Deposit>], tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let mut sums: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for event in events {
            let (balance, count) = sums.entry(event.payload.account).or_default();
            (*balance, *count) = (*balance + event.payload.amount, *count + 1);
        }
        sqlx::query(UPSERT_SUMS)
            .bind(sums.keys().copied().collect::<Vec<_>>())
            .bind(sums.values().map(|sum| sum.0).collect::<Vec<_>>())
            .bind(sums.values().map(|sum| sum.1).collect::<Vec<_>>())
            .execute(tx)
            .await?;
        Ok(())
    }
}

/// Serves until the tasks are dropped.
pub(super) async fn serve(url: &str, course: Course, served: &mut JoinSet<()>) -> SocketAddr {
    let config = config("speed", url);
    migrate::<Postgres>(&config).await.expect("the tables are made");
    let routes = Routes::default();
    let routes = match course.way {
        Way::Awaited => routes.on("Deposited", Awaited),
        Way::Queued => routes.on("Deposited", Queued),
        Way::Batch => routes.on_batch("Deposited", Batch),
    };
    let consumer = Consumer::builder(config, routes).build().await.expect("it is configured");
    let intake: Intake<Postgres> = consumer.intake().await.expect("the tables are there");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a listener has an address");
    let upkeep = intake.clone();
    served.spawn(async move { upkeep.run().await });
    served.spawn(async move { intake.serve(listener, std::future::pending()).await });
    address
}
