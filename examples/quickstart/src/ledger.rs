//! The database of the quick start, and the table at the end, computed from it alone.

use sqlx::{Row, SqlitePool, sqlite::SqliteConnectOptions};

/// The business tables: **no** unique key on the event, or a doubled effect could not show.
const TABLES: &str = "
    CREATE TABLE accounts (account TEXT PRIMARY KEY, balance INTEGER NOT NULL) STRICT;
    CREATE TABLE deposits (place INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL,
        n INTEGER NOT NULL, amount INTEGER NOT NULL, process INTEGER NOT NULL) STRICT;";

/// What was sent.
pub(crate) struct Sent {
    pub(crate) accounts: i64,
    pub(crate) per_account: i64,
    pub(crate) copies: i64,
}

/// What the database says.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) effects: i64,
    pub(crate) lost: i64,
    pub(crate) doubled: i64,
    pub(crate) out_of_order: i64,
    pub(crate) balance: i64,
    pub(crate) processes: i64,
}

/// The database file, opened to look.
pub(crate) struct Ledger(SqlitePool);

impl Ledger {
    pub(crate) async fn create(path: &str, accounts: i64) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
            .busy_timeout(std::time::Duration::from_secs(10));
        let pool = SqlitePool::connect_with(options).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        for account in 0..accounts {
            sqlx::query("INSERT INTO accounts VALUES (?1, 0)")
                .bind(account.to_string())
                .execute(&pool)
                .await?;
        }
        Ok(Self(pool))
    }

    pub(crate) async fn effects(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT count(*) FROM deposits").fetch_one(&self.0).await
    }

    pub(crate) async fn verdict(&self, sent: &Sent) -> Result<Verdict, sqlx::Error> {
        let row = sqlx::query(
            "SELECT (SELECT count(*) FROM deposits),
                (SELECT count(*) FROM (SELECT DISTINCT account, n FROM deposits)),
                (SELECT count(*) FROM (SELECT n, lag(n, 1, 0) OVER (PARTITION BY account ORDER BY place)
                    AS before FROM deposits) WHERE n <> before + 1),
                (SELECT sum(balance) FROM accounts),
                (SELECT count(DISTINCT process) FROM deposits)",
        )
        .fetch_one(&self.0)
        .await?;
        let (effects, distinct): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Verdict {
            effects,
            lost: sent.accounts * sent.per_account - distinct,
            doubled: effects - distinct,
            out_of_order: row.try_get(2)?,
            balance: row.try_get(3)?,
            processes: row.try_get(4)?,
        })
    }
}
