//! The shop of the quick start: it writes what happened and the event that tells it in one transaction.

use std::time::{Duration, Instant};

use outbox_core::{Aggregate, OutboxEvent};
use sqlx::ConnectOptions as _;
use sqlx::{
    Connection as _, Row as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use crate::consumer::Deposited;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The relay finds what is written within this time.
const FOUND_WITHIN: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(15);

/// The shop's database, with its outbox.
pub(crate) struct Shop(SqliteConnection);

impl Shop {
    pub(crate) async fn open(path: &str) -> Result<Self, Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(10));
        let mut conn = options.connect().await?;
        let table = "CREATE TABLE requests (account TEXT NOT NULL, n INTEGER NOT NULL, amount INTEGER NOT NULL) STRICT";
        sqlx::raw_sql(table).execute(&mut conn).await?;
        outbox_core::migrate(&mut conn).await?;
        Ok(Self(conn))
    }

    /// Deposit number `n` of every account: the requests and their events, together or not at all.
    pub(crate) async fn deposit(
        &mut self,
        n: i64,
        accounts: i64,
        commit: bool,
    ) -> Result<(), Error> {
        let mut tx = self.0.begin_with("BEGIN IMMEDIATE").await?;
        let mut events = Vec::new();
        for account in 0..accounts {
            let amount = 1 + (n * account) % 9;
            sqlx::query("INSERT INTO requests VALUES (?1, ?2, ?3)")
                .bind(account.to_string())
                .bind(n)
                .bind(amount)
                .execute(&mut *tx)
                .await?;
            let aggregate = Aggregate::new("Account", account.to_string())?;
            events.push(OutboxEvent::new("Deposited", &aggregate, &Deposited { n, amount })?);
        }
        outbox_core::append_all(&mut *tx, &events).await?;
        if commit {
            tx.commit().await?
        } else {
            tx.rollback().await?
        }
        Ok(())
    }

    /// Events that the relay has not marked as sent.
    pub(crate) async fn waiting(&mut self) -> Result<i64, Error> {
        let waiting = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL";
        Ok(sqlx::query(waiting).fetch_one(&mut self.0).await?.try_get(0)?)
    }

    /// Waits until everything is sent.
    pub(crate) async fn empty(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        while self.waiting().await? > 0 {
            if began.elapsed() > PATIENCE {
                return Err("the relay does not empty the outbox".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Catches the relay between Kafka's acknowledgement and its mark: it can read and send, but not write,
    /// while this transaction is open. Then `kill` is called. Answers how many events Kafka has that the
    /// outbox does not know of.
    pub(crate) async fn caught(
        &mut self,
        kill: impl Future<Output = std::io::Result<()>>,
    ) -> Result<i64, Error> {
        let tx = self.0.begin_with("BEGIN IMMEDIATE").await?;
        tokio::time::sleep(FOUND_WITHIN).await;
        kill.await?;
        tx.rollback().await?;
        self.waiting().await
    }
}
