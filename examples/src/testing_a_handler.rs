//! Testing a handler: no Kafka, the real pipeline, a database of the test's own.
//!
//! The handler withdraws money. The tests ask what a consumer meets in production: a second copy, a crash
//! before COMMIT, a redelivery after the retention, an id that is used twice, an account that is empty; and they
//! show three handlers that go wrong.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Tx};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Sqlite};

/// The tables of the handlers.
pub const TABLES: &str = "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance BIGINT NOT NULL);
    INSERT INTO accounts VALUES ('a', 100);
    CREATE TABLE withdrawals (event_id TEXT UNIQUE, amount BIGINT NOT NULL)";

/// Money was taken out of an account.
#[derive(Debug, Serialize, Deserialize)]
pub struct Withdrawn {
    /// How much.
    pub amount: i64,
}

/// Withdraws, and rejects what an account does not have.
#[derive(Debug)]
pub struct Withdraw;

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
pub struct Mails {
    /// What the mail server has seen.
    pub sent: Arc<AtomicU32>,
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
pub struct Careless {
    /// The statement.
    pub sql: &'static str,
}

impl Handler<Sqlite> for Careless {
    type Event = Withdrawn;

    async fn handle(&self, _: &Event<Withdrawn>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let _ = sqlx::raw_sql(AssertSqlSafe(self.sql)).execute(&mut *tx).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use inbox_consumer::{
        Routes,
        testing::{Aggregate, EventId, HandlerTest, OutboxEvent, Outcome, TestError},
    };

    use super::*;

    async fn bench<H: Handler<Sqlite>>(handler: H) -> HandlerTest<Sqlite> {
        let mut bench = HandlerTest::sqlite().await.unwrap();
        bench.execute(TABLES).await.unwrap();
        bench.handle(Routes::default().on("Withdrawn", handler)).await.unwrap();
        bench
    }

    fn withdrawn(amount: i64) -> OutboxEvent {
        let account = Aggregate::new("Account", "a").unwrap();
        OutboxEvent::new("Withdrawn", &account, &Withdrawn { amount }).unwrap()
    }

    async fn balance(bench: &mut HandlerTest<Sqlite>) -> i64 {
        bench.number("SELECT balance FROM accounts").await.unwrap()
    }

    #[tokio::test]
    async fn a_second_copy_changes_nothing() -> Result<(), TestError> {
        let mut bench = bench(Withdraw).await;
        let outcomes = bench.delivered_twice(&withdrawn(30)).await?;
        assert_eq!(outcomes, [Outcome::Applied, Outcome::Duplicate]);
        assert_eq!(balance(&mut bench).await, 70);
        bench.close().await
    }

    #[tokio::test]
    async fn a_crash_costs_nothing_and_doubles_nothing() -> Result<(), TestError> {
        let mut bench = bench(Withdraw).await;
        assert_eq!(bench.crashed_before_commit(&withdrawn(30)).await?, Outcome::Applied);
        assert_eq!(bench.crashed_after_commit(&withdrawn(5)).await?, Outcome::Applied);
        assert_eq!(balance(&mut bench).await, 65);
        bench.close().await
    }

    #[tokio::test]
    async fn kafka_s_redeliveries_are_recognised_for_ever() -> Result<(), TestError> {
        let mut bench = bench(Withdraw).await;
        let outcomes = bench.redelivered_after_retention(&withdrawn(30)).await?;
        assert_eq!(outcomes, [Outcome::Applied, Outcome::Duplicate]);
        assert_eq!(balance(&mut bench).await, 70);
        bench.close().await
    }

    /// Beyond the retention the handler's own unique key has the last word.
    #[tokio::test]
    async fn a_copy_that_is_sent_after_the_retention_meets_the_unique_key() -> Result<(), TestError>
    {
        let mut bench = bench(Withdraw).await;
        let [first, second] = bench.sent_again_after_retention(&withdrawn(30)).await?;
        assert_eq!(first, Outcome::Applied);
        assert!(second.error().contains("UNIQUE constraint failed"), "{second:?}");
        assert_eq!(balance(&mut bench).await, 70);
        bench.close().await
    }

    /// Another event under the same id is parked, and what follows it for the account waits.
    #[tokio::test]
    async fn an_id_that_is_used_twice_is_parked() -> Result<(), TestError> {
        let mut bench = bench(Withdraw).await;
        let id = EventId::new();
        assert_eq!(bench.deliver(&withdrawn(30).with_id(id)).await?, Outcome::Applied);
        let other = bench.deliver(&withdrawn(40).with_id(id)).await?;
        assert_eq!((other.reason(), balance(&mut bench).await), ("mismatch", 70));
        assert_eq!(bench.deliver(&withdrawn(1)).await?.reason(), "follower");
        bench.close().await
    }

    #[tokio::test]
    async fn an_empty_account_is_a_rejection() -> Result<(), TestError> {
        let mut bench = bench(Withdraw).await;
        let outcome = bench.deliver(&withdrawn(101)).await?;
        assert_eq!(outcome.reason(), "rejected");
        assert_eq!(outcome.error(), "the account does not have that much");
        assert_eq!(balance(&mut bench).await, 100);
        bench.close().await
    }

    /// Wrong: what is done outside the transaction is done again with every attempt.
    #[tokio::test]
    async fn a_mail_goes_out_twice() -> Result<(), TestError> {
        let mails = Mails::default();
        let sent = Arc::clone(&mails.sent);
        let mut bench = bench(mails).await;
        assert_eq!(bench.crashed_before_commit(&withdrawn(30)).await?, Outcome::Applied);
        assert_eq!(balance(&mut bench).await, 70, "the effect is there once");
        assert_eq!(sent.load(SeqCst), 2, "the mail is not: append an event to the outbox instead");
        bench.close().await
    }

    /// Wrong: an error that is swallowed is an effect that is missing, so the event fails.
    #[tokio::test]
    async fn a_swallowed_error_fails_the_event() -> Result<(), TestError> {
        let mut bench = bench(Careless { sql: "INSERT INTO nowhere VALUES (1)" }).await;
        let outcome = bench.deliver(&withdrawn(30)).await?;
        assert_eq!(outcome.reason(), "exhausted");
        assert!(outcome.error().starts_with("the handler swallowed an error"), "{outcome:?}");
        bench.close().await
    }

    /// Wrong: the transaction is the consumer's.
    #[tokio::test]
    async fn a_handler_that_ends_the_transaction_fails_the_event() -> Result<(), TestError> {
        let mut bench = bench(Careless { sql: "COMMIT" }).await;
        let outcome = bench.deliver(&withdrawn(30)).await?;
        assert_eq!(outcome.reason(), "exhausted");
        assert!(outcome.error().contains("a handler may not run COMMIT"), "{outcome:?}");
        assert_eq!(balance(&mut bench).await, 100);
        bench.close().await
    }
}
