//! A lesson on what happens to an event that fails.
//!
//! 1. It is tried again at once, a few times (`[retry]`), with short pauses. That is for what passes by itself
//!    in a moment.
//! 2. Then it is *parked*: its record is kept in `inbox_parked`, in the same transaction that moves on. Later
//!    events of its aggregate queue up behind it, in order; all other aggregates go on.
//! 3. By a schedule (`[park]`, or one for the type) it is released: its handler is called again, and when it
//!    succeeds, everything behind it follows, in order.
//! 4. An event that no repetition can help is rejected: it is parked at once and waits for a person.
//!
//! Here an account is credited before the news that it was opened has come, from another topic, say.
//!
//! # What it prints
//!
//! ```text
//! sent: 20 credits of an account that is there, 20 of one that is not yet, and one that is negative
//! the account that is there has its 20 credits
//! parked: 19 follower, 1 exhausted, 1 rejected
//! the other account is opened
//! it has its 20 credits, in order, and takes the next one as usual
//! still parked, for a person: rejected
//! ```

use std::time::Duration;

use examples::{Error, RunningConsumer, Services, configure, send, wait_until};
use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Schedule, Tx};
use outbox_core::{Aggregate, OutboxEvent};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Postgres};

const TABLES: &str = "
    CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL DEFAULT 0);
    CREATE TABLE credits (place bigint GENERATED ALWAYS AS IDENTITY, account text NOT NULL, n bigint NOT NULL)";

/// Money came in: the `n`th time for its account.
#[derive(Serialize, Deserialize)]
struct Credited {
    n: i64,
    amount: i64,
}

/// Credits an account.
struct Credit;

impl Handler<Postgres> for Credit {
    type Event = Credited;

    async fn handle(&self, event: &Event<Credited>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let Credited { n, amount } = event.payload;
        if amount < 0 {
            // Tomorrow it will be negative, too: no attempt is spent, the event is parked for a person.
            return Err(HandlerError::reject("a credit is never negative"));
        }
        let account = event.aggregate().aggregate_id();
        let done = sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE id = $2")
            .bind(amount)
            .bind(account)
            .execute(&mut *tx)
            .await?;
        if done.rows_affected() == 0 {
            // It may be there in a moment, or in an hour: tried again, then parked with a schedule. An error
            // that is returned by `?` is treated the same way.
            return Err(HandlerError::retry(format!("there is no account {account} yet")));
        }
        sqlx::query("INSERT INTO credits (account, n) VALUES ($1, $2)")
            .bind(account)
            .bind(n)
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    let mut services = Services::find_or_start()?;
    let topic = services.create_topic("credits").await?;
    let database = services.create_database("ledger").await?;
    let pool = PgPool::connect(&database).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    sqlx::raw_sql("INSERT INTO accounts (id) VALUES ('early')").execute(&pool).await?;
    let mut config = configure("ledger", &services.kafka, &topic, &database);
    inbox_consumer::migrate::<Postgres>(&config).await?;
    // Two quick attempts instead of four. The rest of `[retry]` and `[park]` is in docs/configuration.md.
    config.retry.attempts_max = 2;
    config.retry.delay_min = Duration::from_millis(20);

    let make_credit = |account: &str, n: i64, amount: i64| {
        let account = Aggregate::new("Account", account)?;
        Ok::<_, Error>(OutboxEvent::new("Credited", &account, &Credited { n, amount })?)
    };
    let mut events = Vec::new();
    for n in 1..=20 {
        events.push(make_credit("early", n, 1)?);
        events.push(make_credit("late", n, 1)?);
    }
    events.push(make_credit("wrong", 1, -1)?);
    send(&services.kafka, &topic, &events).await?;

    println!(
        "sent: 20 credits of an account that is there, 20 of one that is not yet, and one that is negative"
    );

    // A schedule of its own for this type: soon, so that the lesson is short. By default the first release
    // comes after about a minute, the delays double up to an hour, and after 20 of them a person decides.
    let schedule = Schedule {
        delay_min: Duration::from_millis(500),
        delay_max: Duration::from_secs(2),
        releases_max: 1_000,
    };
    let routes = Routes::default().on("Credited", Credit).schedule("Credited", schedule);
    let running = RunningConsumer::start(config, routes).await?;

    // The account that is there is served, the one that is not holds up nobody else.
    let read_credits = async |account: &'static str| -> Result<Vec<i64>, sqlx::Error> {
        sqlx::query_scalar("SELECT n FROM credits WHERE account = $1 ORDER BY place")
            .bind(account)
            .fetch_all(&pool)
            .await
    };
    wait_until("all credits of the early account", || async {
        Ok(read_credits("early").await?.len() == 20)
    })
    .await?;
    println!("the account that is there has its 20 credits");
    wait_until("the others are parked", || async {
        let parked: i64 =
            sqlx::query_scalar("SELECT count(*) FROM inbox_parked").fetch_one(&pool).await?;
        Ok(parked == 21)
    })
    .await?;
    // The first of the late account was tried and has a time; the others follow it; the wrong one waits for a
    // person (`inbox-consumer parked list`, `parked show`, then `parked release` or `parked discard`).
    let reasons: Vec<(String, i64)> = sqlx::query_as(
        "SELECT reason, count(*) FROM inbox_parked GROUP BY reason ORDER BY count(*) DESC, reason",
    )
    .fetch_all(&pool)
    .await?;
    let expected = [("follower", 19), ("exhausted", 1), ("rejected", 1)];
    assert_eq!(reasons, expected.map(|(reason, count)| (reason.to_owned(), count)));
    let counts: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    println!("parked: {}", counts.join(", "));

    // The account is opened. Nobody has to do anything else.
    sqlx::raw_sql("INSERT INTO accounts (id) VALUES ('late')").execute(&pool).await?;
    println!("the other account is opened");
    wait_until("the late account caught up", || async {
        Ok(read_credits("late").await?.len() == 20)
    })
    .await?;
    // Another one arrives: nothing is parked any more, so it is handled as usual.
    send(&services.kafka, &topic, &[make_credit("late", 21, 1)?]).await?;
    wait_until("the next one", || async { Ok(read_credits("late").await?.len() == 21) }).await?;
    running.stop().await?;

    for (account, last) in [("early", 20), ("late", 21)] {
        let in_order: Vec<i64> = (1..=last).collect();
        assert_eq!(read_credits(account).await?, in_order, "each once, in order, parked or not");
    }
    println!("it has its 20 credits, in order, and takes the next one as usual");
    let left: Vec<String> =
        sqlx::query_scalar("SELECT reason FROM inbox_parked").fetch_all(&pool).await?;
    assert_eq!(left, ["rejected"], "what no schedule can help waits for a person");
    println!("still parked, for a person: {}", left.join(", "));
    pool.close().await;
    services.clean_up().await
}
