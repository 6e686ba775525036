//! Ours, as a user would write it: default limits, tables by `migrate`, nothing but the public interface.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use inbox_consumer::config::{Config, Declared, DeclaredMode, Overrides};
use inbox_consumer::pipeline::port::Store;
use inbox_consumer::{
    BatchHandler, Consumer, Event, GapEnd, Handler, HandlerError, HandlerResult, Routes, Tx,
    VersionPolicy, migrate, statement,
};
use outbox_core::{Decode, Json};
use sqlx::Postgres;
use tokio::sync::oneshot;
use xtask::failure::{Explain as _, Outcome, failure};

use super::ending::Ending;
use super::record::Deposited;
use super::sums::Sums;
use super::{Times, UPSERT, UPSERT_SUMS, ours_sqlite};
use crate::candidate::Candidate;
use crate::options::Order;
use crate::plan::{CONSUMER, EVENT_TYPE};
use crate::scenario::Look;

/// No version is missing.
const GAP_WAIT: Duration = Duration::from_mins(1);

/// How often the end is looked for, as in the loops.
const LOOK: Duration = Duration::from_millis(5);

/// [`UPSERT`] as a declared handler has it.
const DECLARED_EACH: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT account, amount, 1, sequence, 0 FROM events
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + 1,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + (excluded.last_sequence <> a.last_sequence + 1)::int";

/// [`UPSERT_SUMS`] as a declared handler has it, summed up by the database.
const DECLARED_RUN: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT account, sum(amount), count(*), max(sequence),
        (max(sequence) - min(sequence) + 1 <> count(*))::int
    FROM events GROUP BY account
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + excluded.events,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + excluded.disorder
            + (excluded.last_sequence - excluded.events <> a.last_sequence)::int";

pub(super) async fn run(order: Order) -> Outcome<Times> {
    let mut config = configured(&order)?;
    order.form.configure(&mut config)?;
    if order.database.starts_with("sqlite:") {
        return Box::pin(consume(config, ours_sqlite::routes(order.candidate), &order)).await;
    }
    match order.candidate {
        Candidate::SqlEach => config.handlers.push(declared(DeclaredMode::Each, DECLARED_EACH)),
        Candidate::SqlRun => config.handlers.push(declared(DeclaredMode::Run, DECLARED_RUN)),
        _ => {}
    }
    let registry = config.schemas.codec().explain(|| "cannot read schemas".to_owned())?;
    let mut routes = match registry {
        Some(registry) => routes(&order, registry),
        None => routes(&order, Json),
    };
    if let Some(look) = order.versions {
        let policy = match look {
            Look::Stale => VersionPolicy::stale(),
            Look::Gap => VersionPolicy::gap(GAP_WAIT, GapEnd::Park),
        };
        routes = routes.versions(EVENT_TYPE, policy.first(1));
    }
    Box::pin(consume(config, routes, &order)).await
}

/// The handler of a candidate; those of declared ones are in the configuration.
fn routes<C: Decode<Deposited>>(order: &Order, codec: C) -> Routes<Postgres> {
    let routes = Routes::default();
    match order.candidate {
        Candidate::Handler => routes.on_with(EVENT_TYPE, codec, Deposit { slow: order.slow }),
        Candidate::Queued => routes.on_with(EVENT_TYPE, codec, Queue),
        Candidate::Batch => routes.on_batch_with(EVENT_TYPE, codec, Deposits { alone: false }),
        Candidate::Careful => routes.on_batch_with(EVENT_TYPE, codec, Deposits { alone: true }),
        _ => routes,
    }
}

/// The default settings, unless the environment has others (`INBOX_<SECTION>__<KEY>`): so a setting can be
/// tried.
fn configured(order: &Order) -> Outcome<Config> {
    let ours = [
        ("INBOX_CONSUMER__NAME", CONSUMER),
        ("INBOX_KAFKA__BOOTSTRAP", &order.kafka),
        ("INBOX_KAFKA__TOPICS", &order.topic),
        ("INBOX_KAFKA__GROUP", &order.group),
        ("INBOX_DATABASE__URL", &order.database),
        ("INBOX_HTTP__LISTEN", "off"),
    ];
    let connections = order.connections.map(|number| number.to_string());
    let connections = connections.as_deref().map(|number| ("INBOX_DATABASE__CONNECTIONS", number));
    let instance = order.instance.as_deref().map(|id| ("INBOX_CONSUMER__INSTANCE_ID", id));
    let retention = order.retention.as_deref().map(|time| ("INBOX_RETENTION__INBOX", time));
    let ours = ours.into_iter().chain(connections).chain(instance).chain(retention);
    let ours: Vec<_> = ours.collect();
    let tried = std::env::vars().filter(|(name, _)| !ours.iter().any(|(own, _)| own == name));
    let own = ours.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let all: Vec<_> = tried.chain(own).collect();
    Config::load(None, all, &Overrides::default()).explain(|| "cannot configure ours".to_owned())
}

async fn consume<DB: Store>(config: Config, routes: Routes<DB>, order: &Order) -> Outcome<Times> {
    migrate::<DB>(&config).await.explain(|| "cannot make the tables".to_owned())?;
    let built = Consumer::builder(config, routes).build().await;
    let consumer = built.explain(|| "cannot build the consumer".to_owned())?;
    let counters = consumer.counters();
    let (shutdown, asked) = oneshot::channel::<()>();
    let (began, ending) = (SystemTime::now(), Ending::of(order));
    let running = tokio::spawn(consumer.run(async move { drop(asked.await) }));
    loop {
        let counts = counters.read();
        if ending.reached(counts.applied + counts.duplicates + counts.stale + counts.parked) {
            break;
        }
        if running.is_finished() {
            return failure(match running.await {
                Ok(ended) => format!("the consumer ended: {ended}"),
                Err(error) => format!("the consumer ended: {error}"),
            });
        }
        tokio::time::sleep(LOOK).await;
    }
    let ended = SystemTime::now();
    drop(shutdown);
    running.await.explain(|| "the consumer's task".to_owned())?;
    Ok(Times { began, ended })
}

fn declared(mode: DeclaredMode, sql: &str) -> Declared {
    let columns =
        ["account", "amount", "sequence"].map(|name| (name.to_owned(), "int8".to_owned()));
    Declared {
        event_type: EVENT_TYPE.to_owned(),
        mode,
        // It sums up.
        one_per_aggregate: (mode == DeclaredMode::Run).then_some(false),
        columns: BTreeMap::from(columns),
        sql: sql.to_owned(),
        ..Declared::default()
    }
}

/// One event in so many is slow, in the scenario that has slow ones, and takes so long.
const SLOW_EVERY: i64 = 100;
const SLOW: Duration = Duration::from_millis(50);

/// One awaited statement per event.
struct Deposit {
    slow: bool,
}

impl Handler<Postgres> for Deposit {
    type Event = Deposited;

    async fn handle(&self, event: &Event<Deposited>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        sqlx::query(UPSERT)
            .bind(event.payload.account)
            .bind(event.payload.amount)
            .bind(event.payload.sequence)
            .execute(tx)
            .await?;
        if self.slow && event.payload.amount % SLOW_EVERY == 0 {
            tokio::time::sleep(SLOW).await;
        }
        Ok(())
    }
}

/// One queued statement per event.
struct Queue;

impl Handler<Postgres> for Queue {
    type Event = Deposited;

    async fn handle(&self, event: &Event<Deposited>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let Deposited { account, amount, sequence } = event.payload;
        tx.queue(statement(UPSERT).bind(account).bind(amount).bind(sequence))?;
        Ok(())
    }
}

/// One statement per run. An account may occur several times in a run, so it is summed up first.
struct Deposits {
    /// Fails for every run of more than one event.
    alone: bool,
}

impl BatchHandler<Postgres> for Deposits {
    type Event = Deposited;

    async fn handle(
        &self,
        events: &[Event<Deposited>],
        tx: &mut Tx<'_, Postgres>,
    ) -> HandlerResult {
        if self.alone && events.len() > 1 {
            return Err(HandlerError::retry("told to fail"));
        }
        let sums = Sums::of(events.iter().map(|event| &event.payload));
        sqlx::query(UPSERT_SUMS)
            .bind(sums.accounts)
            .bind(sums.balances)
            .bind(sums.events)
            .bind(sums.last_sequences)
            .bind(sums.disorder)
            .execute(tx)
            .await?;
        Ok(())
    }
}
