//! Savepoints of a handler: a part of its work that may fail without failing the event.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use inbox_store::internal::port::{Savepoint, Sessions, StoreFault};
use sqlx::{Database, Error};

use super::{Tx, guard::Guard};

impl<'t, DB: Database> Tx<'t, DB> {
    /// The most savepoints of handlers in one transaction, those that were rolled back not counted.
    /// With the 32 of a careful run that is 63: beyond 64 subtransactions PostgreSQL slows the
    /// whole server down.
    pub const SAVEPOINTS_MAX: u32 = 31;

    /// Begins a part that may fail. What fails in it is forgiven by [`SavepointTx::rollback`].
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] mod example {
    /// use inbox_consumer::{HandlerResult, Tx};
    /// use sqlx::Postgres;
    ///
    /// async fn greet_once(account: i64, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    ///     let mut part = tx.savepoint().await?;
    ///     let greeted = sqlx::query("INSERT INTO greetings (account) VALUES ($1)")
    ///         .bind(account)
    ///         .execute(&mut *part)
    ///         .await;
    ///     match greeted {
    ///         Ok(_) => part.release().await?,
    ///         Err(_) => part.rollback().await?,
    ///     }
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The database's; or the transaction has [`SAVEPOINTS_MAX`](Self::SAVEPOINTS_MAX) already.
    /// Then it is run again with half its events, and no event's attempt is spent.
    pub async fn savepoint(&mut self) -> Result<SavepointTx<'_, 't, DB>, Error>
    where
        DB: Sessions + Savepoint,
    {
        self.guard.usable()?;
        self.send_queued_first().await?;
        if self.guard.taken >= Self::SAVEPOINTS_MAX {
            return Err(self.guard.refuse(StoreFault::Conflict, too_many_savepoints::<DB>()));
        }
        let (depth, taken_before) = (self.guard.open + 1, self.guard.taken);
        self.guard.begin();
        let opened = DB::savepoint(self.connection, depth).await;
        note::<DB>(&mut self.guard, &opened);
        opened?;
        self.guard.open = depth;
        self.guard.taken += 1;
        Ok(SavepointTx { tx: self, depth, taken_before, decided: false })
    }
}

fn too_many_savepoints<DB: Database>() -> String {
    format!(
        "the handlers of one transaction may create at most {} savepoints: it is retried with \
         fewer events; a handler that exceeds this for a single event needs fewer savepoints",
        Tx::<DB>::SAVEPOINTS_MAX
    )
}

fn note<DB: Sessions>(guard: &mut Guard, done: &Result<(), Error>) {
    match done {
        Ok(()) => guard.end(),
        Err(error) => guard.fail::<DB>(error),
    }
}

/// A part of the handler's work that may fail. It is a [`Tx`]: give `&mut *part` to any query.
///
/// End it with [`release`](Self::release) or [`rollback`](Self::rollback). Dropped undecided it
/// makes the whole transaction roll back.
#[must_use = "a savepoint that is dropped undecided makes the transaction roll back"]
pub struct SavepointTx<'a, 't, DB: Database> {
    tx: &'a mut Tx<'t, DB>,
    depth: u32,
    taken_before: u32,
    decided: bool,
}

impl<DB: Sessions + Savepoint> SavepointTx<'_, '_, DB> {
    /// Keeps what was done since the savepoint, as part of the transaction.
    ///
    /// # Errors
    ///
    /// The database's, or a statement since the savepoint has failed. The transaction can then only
    /// be rolled back.
    pub async fn release(mut self) -> Result<(), Error> {
        self.tx.guard.usable()?;
        self.tx.send_queued_first().await?;
        self.tx.guard.begin();
        let released = DB::release(self.tx.connection, self.depth).await;
        note::<DB>(&mut self.tx.guard, &released);
        released?;
        self.decide();
        Ok(())
    }

    /// Undoes everything since the savepoint, failures included. What was queued since is not sent.
    ///
    /// # Errors
    ///
    /// The database's. And what no savepoint can undo is reported again: a lost connection, a
    /// deadlock, a serialization failure, a statement that was dropped half-way.
    pub async fn rollback(mut self) -> Result<(), Error> {
        if !self.tx.guard.mends() {
            self.tx.guard.usable()?;
        }
        self.tx.guard.begin();
        let undone = DB::rollback_to(self.tx.connection, self.depth).await;
        note::<DB>(&mut self.tx.guard, &undone);
        undone?;
        self.tx.guard.forgive();
        self.tx.queue.forget();
        self.tx.guard.taken = self.taken_before;
        self.decide();
        Ok(())
    }

    fn decide(&mut self) {
        self.tx.guard.open = self.depth - 1;
        self.decided = true;
    }
}

impl<DB: Database> Drop for SavepointTx<'_, '_, DB> {
    fn drop(&mut self) {
        if !self.decided {
            // Poisons: the error itself has no one to go to.
            let _ = self.tx.guard.refuse(
                StoreFault::Statement,
                "a savepoint was dropped unfinished: end each with release() or rollback()".into(),
            );
        }
    }
}

impl<'t, DB: Database> Deref for SavepointTx<'_, 't, DB> {
    type Target = Tx<'t, DB>;

    fn deref(&self) -> &Self::Target {
        self.tx
    }
}

impl<DB: Database> DerefMut for SavepointTx<'_, '_, DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.tx
    }
}

impl<DB: Database> fmt::Debug for SavepointTx<'_, '_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavepointTx").field("depth", &self.depth).finish_non_exhaustive()
    }
}
