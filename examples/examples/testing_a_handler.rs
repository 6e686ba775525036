//! Testing a handler: no Kafka, the real pipeline, a database of the test's own.
//!
//! The handler withdraws money. The tests ask what a consumer meets in production: a second copy, a crash
//! before COMMIT, a redelivery after the retention, an id that is used twice, an account that is empty; and they
//! show three handlers that go wrong.
//!
//! Here `main` calls them, so that you see what they see. In your crate each is a `#[tokio::test]`, and nothing
//! else changes.
//!
//! # What it prints
//!
//! ```text
//! a second copy: Duplicate; the balance is 70
//! a crash before COMMIT, and one after it: Applied, Applied; the balance is 65
//! a redelivery after the retention: Duplicate; the balance is 70
//! the same event, sent again after the retention: parked by the handler's unique key; the balance is 70
//! another event with the same id: parked as mismatch, and what comes behind it as follower
//! more than the account has: parked as rejected: the account does not have that much
//! a mail from inside a handler, and a crash: 2 mails for one event
//! an error that the handler swallows: parked: the handler swallowed an error…
//! a handler that says COMMIT: parked: …a handler may not run COMMIT…
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use examples::Error;
use inbox_consumer::{
    Event, Handler, HandlerError, HandlerResult, Routes, Tx,
    testing::{Aggregate, EventId, HandlerTest, OutboxEvent, Outcome, TestError},
};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Sqlite};

/// The tables of the handlers.
const TABLES: &str = "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance BIGINT NOT NULL);
    INSERT INTO accounts VALUES ('a', 100);
    CREATE TABLE withdrawals (event_id TEXT UNIQUE, amount BIGINT NOT NULL)";

/// Money was taken out of an account.
#[derive(Debug, Serialize, Deserialize)]
struct Withdrawn {
    /// How much.
    amount: i64,
}

/// Withdraws, and rejects what an account does not have.
#[derive(Debug)]
struct Withdraw;

impl Handler<Sqlite> for Withdraw {
    type Event = Withdrawn;

    async fn handle(&self, event: &Event<Withdrawn>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let paid = sqlx::query(
            "UPDATE accounts SET balance = balance - ?1 WHERE id = ?2 AND balance >= ?1",
        )
        .bind(event.payload.amount)
        .bind(event.aggregate().aggregate_id())
        .execute(&mut *tx)
        .await?;
        if paid.rows_affected() == 0 {
            return Err(HandlerError::reject("the account does not have that much"));
        }
        sqlx::query("INSERT INTO withdrawals VALUES (?1, ?2)")
            .bind(event.id().to_string())
            .bind(event.payload.amount)
            .execute(&mut *tx)
            .await?;
        Ok(())
    }
}

/// Goes wrong: it tells a mail server while it handles. A crash does not take that back.
#[derive(Debug, Default)]
struct Mails {
    /// What the mail server has seen.
    sent: Arc<AtomicU32>,
}

impl Handler<Sqlite> for Mails {
    type Event = Withdrawn;

    async fn handle(&self, event: &Event<Withdrawn>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        self.sent.fetch_add(1, SeqCst);
        Withdraw.handle(event, tx).await
    }
}

/// Goes wrong: it runs a statement and does as if nothing had happened when that fails.
#[derive(Debug)]
struct Careless {
    /// The statement.
    sql: &'static str,
}

impl Handler<Sqlite> for Careless {
    type Event = Withdrawn;

    async fn handle(&self, _: &Event<Withdrawn>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let _ = sqlx::raw_sql(AssertSqlSafe(self.sql)).execute(&mut *tx).await;
        Ok(())
    }
}

async fn start<H: Handler<Sqlite>>(handler: H) -> Result<HandlerTest<Sqlite>, TestError> {
    let mut bench = HandlerTest::sqlite().await?;
    bench.execute(TABLES).await?;
    bench.handle(Routes::default().on("Withdrawn", handler)).await?;
    Ok(bench)
}

fn make_withdrawal(amount: i64) -> OutboxEvent {
    let account = Aggregate::new("Account", "a").expect("a type and an id");
    OutboxEvent::new("Withdrawn", &account, &Withdrawn { amount }).expect("it is JSON")
}

async fn read_balance(bench: &mut HandlerTest<Sqlite>) -> Result<i64, TestError> {
    bench.number("SELECT balance FROM accounts").await
}

async fn a_second_copy_changes_nothing() -> Result<(), TestError> {
    let mut bench = start(Withdraw).await?;
    let outcomes = bench.delivered_twice(&make_withdrawal(30)).await?;
    assert_eq!(outcomes, [Outcome::Applied, Outcome::Duplicate]);
    let balance = read_balance(&mut bench).await?;
    assert_eq!(balance, 70);
    println!("a second copy: {:?}; the balance is {balance}", outcomes[1]);
    bench.close().await
}

async fn a_crash_loses_nothing_and_doubles_nothing() -> Result<(), TestError> {
    let mut bench = start(Withdraw).await?;
    let before = bench.crashed_before_commit(&make_withdrawal(30)).await?;
    let after = bench.crashed_after_commit(&make_withdrawal(5)).await?;
    assert_eq!([&before, &after], [&Outcome::Applied, &Outcome::Applied]);
    let balance = read_balance(&mut bench).await?;
    assert_eq!(balance, 65);
    println!(
        "a crash before COMMIT, and one after it: {before:?}, {after:?}; the balance is {balance}"
    );
    bench.close().await
}

async fn a_redelivery_of_kafka_is_recognised_for_ever() -> Result<(), TestError> {
    let mut bench = start(Withdraw).await?;
    let outcomes = bench.redelivered_after_retention(&make_withdrawal(30)).await?;
    assert_eq!(outcomes, [Outcome::Applied, Outcome::Duplicate]);
    let balance = read_balance(&mut bench).await?;
    assert_eq!(balance, 70);
    println!("a redelivery after the retention: {:?}; the balance is {balance}", outcomes[1]);
    bench.close().await
}

/// Beyond the retention the handler's own unique key decides.
async fn a_copy_that_is_sent_after_the_retention_meets_the_unique_key() -> Result<(), TestError> {
    let mut bench = start(Withdraw).await?;
    let [first, second] = bench.sent_again_after_retention(&make_withdrawal(30)).await?;
    assert_eq!((first, second.reason()), (Outcome::Applied, "exhausted"));
    assert!(second.error().contains("UNIQUE constraint failed"), "{second:?}");
    let balance = read_balance(&mut bench).await?;
    assert_eq!(balance, 70);
    println!(
        "the same event, sent again after the retention: parked by the handler's unique key; the balance is \
         {balance}"
    );
    bench.close().await
}

/// Another event under the same id is parked, and what follows it for the account waits.
async fn an_id_that_is_used_twice_is_parked() -> Result<(), TestError> {
    let mut bench = start(Withdraw).await?;
    let id = EventId::new();
    let first = bench.deliver(&make_withdrawal(30).with_id(id)).await?;
    let other = bench.deliver(&make_withdrawal(40).with_id(id)).await?;
    let next = bench.deliver(&make_withdrawal(1)).await?;
    assert_eq!(first, Outcome::Applied);
    assert_eq!((other.reason(), next.reason()), ("mismatch", "follower"));
    assert_eq!(read_balance(&mut bench).await?, 70);
    println!(
        "another event with the same id: parked as {}, and what comes behind it as {}",
        other.reason(),
        next.reason()
    );
    bench.close().await
}

async fn an_empty_account_is_a_rejection() -> Result<(), TestError> {
    let mut bench = start(Withdraw).await?;
    let outcome = bench.deliver(&make_withdrawal(101)).await?;
    assert_eq!(outcome.reason(), "rejected");
    assert_eq!(outcome.error(), "the account does not have that much");
    assert_eq!(read_balance(&mut bench).await?, 100);
    println!("more than the account has: parked as {}: {}", outcome.reason(), outcome.error());
    bench.close().await
}

/// Wrong: what is done outside the transaction is done again with every attempt.
async fn a_mail_goes_out_twice() -> Result<(), TestError> {
    let mails = Mails::default();
    let sent = Arc::clone(&mails.sent);
    let mut bench = start(mails).await?;
    assert_eq!(bench.crashed_before_commit(&make_withdrawal(30)).await?, Outcome::Applied);
    assert_eq!(read_balance(&mut bench).await?, 70, "the effect is there once");
    let sent = sent.load(SeqCst);
    assert_eq!(sent, 2, "the mail is not: append an event to the outbox instead");
    println!("a mail from inside a handler, and a crash: {sent} mails for one event");
    bench.close().await
}

/// Wrong: an error that is swallowed is an effect that is missing, so the event fails.
async fn a_swallowed_error_fails_the_event() -> Result<(), TestError> {
    let mut bench = start(Careless { sql: "INSERT INTO nowhere VALUES (1)" }).await?;
    let outcome = bench.deliver(&make_withdrawal(30)).await?;
    assert_eq!(outcome.reason(), "exhausted");
    assert!(outcome.error().starts_with("the handler swallowed an error"), "{outcome:?}");
    println!("an error that the handler swallows: parked: {}", outcome.error());
    bench.close().await
}

/// Wrong: the transaction is the consumer's.
async fn a_handler_that_ends_the_transaction_fails_the_event() -> Result<(), TestError> {
    let mut bench = start(Careless { sql: "COMMIT" }).await?;
    let outcome = bench.deliver(&make_withdrawal(30)).await?;
    assert_eq!(outcome.reason(), "exhausted");
    assert!(outcome.error().contains("a handler may not run COMMIT"), "{outcome:?}");
    assert_eq!(read_balance(&mut bench).await?, 100);
    println!("a handler that says COMMIT: parked: {}", outcome.error());
    bench.close().await
}

#[tokio::main]
pub async fn main() -> Result<(), Error> {
    a_second_copy_changes_nothing().await?;
    a_crash_loses_nothing_and_doubles_nothing().await?;
    a_redelivery_of_kafka_is_recognised_for_ever().await?;
    a_copy_that_is_sent_after_the_retention_meets_the_unique_key().await?;
    an_id_that_is_used_twice_is_parked().await?;
    an_empty_account_is_a_rejection().await?;
    a_mail_goes_out_twice().await?;
    a_swallowed_error_fails_the_event().await?;
    a_handler_that_ends_the_transaction_fails_the_event().await?;
    Ok(())
}
