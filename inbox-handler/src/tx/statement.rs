//! A statement that a handler queues.

use std::fmt;

use inbox_store::internal::port::{QueuedValues, Queues};
use sqlx::{Database, Encode, SqlSafeStr, SqlStr, Type, error::BoxDynError};

/// A statement for [`Tx::queue`](crate::Tx::queue), as [`sqlx::query()`] is one for `execute`.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use inbox_consumer::{HandlerResult, Tx, statement};
/// use sqlx::Postgres;
///
/// fn credit(account: i64, amount: i64, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
///     let credit = statement("UPDATE accounts SET balance = balance + $1 WHERE id = $2");
///     tx.queue(credit.bind(amount).bind(account))?;
///     Ok(())
/// }
/// # }
/// ```
pub fn statement<DB: Queues>(sql: impl SqlSafeStr) -> Statement<DB> {
    Statement { sql: sql.into_sql_str(), values: DB::values(), bytes: 0, error: None }
}

/// A statement with its values. Made by [`statement()`].
#[must_use = "a statement does nothing until it is given to `tx.queue`"]
pub struct Statement<DB: Database> {
    pub(super) sql: SqlStr,
    pub(super) values: QueuedValues<DB>,
    /// What the values take, about.
    pub(super) bytes: usize,
    pub(super) error: Option<BoxDynError>,
}

impl<DB: Queues> Statement<DB> {
    /// Binds the next value, by the same traits as [`sqlx::query::Query::bind`]. A value that cannot
    /// be encoded is told by [`Tx::queue`](crate::Tx::queue).
    pub fn bind<'t, T: Encode<'t, DB> + Type<DB>>(mut self, value: T) -> Self {
        if self.error.is_none() {
            match DB::bind(&mut self.values, value) {
                Ok(bytes) => self.bytes += bytes,
                Err(error) => self.error = Some(error),
            }
        }
        self
    }
}

impl<DB: Database> fmt::Debug for Statement<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement").field("sql", &self.sql.as_str()).finish_non_exhaustive()
    }
}
