//! A session in a transaction.

use std::time::Instant;

use inbox_engine::internal::TransactionFault;
use inbox_store::internal::port::{OpenError, Transactions};

use super::{sessions::Session, transaction::Work};

impl<DB: Transactions> Work<DB> {
    /// BEGIN, and before it what the session does not know yet.
    async fn begin_on(&self, conn: &mut Session<DB>) -> Result<(), sqlx::Error> {
        conn.prepare_session(&self.registry).await?;
        conn.replan().await?;
        let asked = Instant::now();
        DB::begin(conn, &self.limits).await?;
        self.state.concurrency.record_begin(asked.elapsed());
        Ok(())
    }

    /// A connection inside a transaction. An idle one may have died in the meantime: then a new one
    /// is opened at once, so that a restarted database costs no round of outages.
    pub(super) async fn begin(&self) -> Result<Session<DB>, TransactionFault> {
        let writer_permit = self.sessions.acquire_writer().await;
        let mut conn = self.open_and_begin().await?;
        conn.writer_permit = writer_permit;
        Ok(conn)
    }

    async fn open_and_begin(&self) -> Result<Session<DB>, TransactionFault> {
        if let Some(mut conn) = self.sessions.idle() {
            match self.begin_on(&mut conn).await {
                Ok(()) => return Ok(conn),
                // A failed BEGIN leaves the session in a state nobody knows (finding 20).
                Err(_) => self.sessions.give_up(conn).await,
            }
        }
        let mut conn = self.sessions.open().await.map_err(|error| match error {
            OpenError::Outage(text) | OpenError::Refused(text) => TransactionFault::Outage(text),
        })?;
        match self.begin_on(&mut conn).await {
            Ok(()) => Ok(conn),
            Err(error) => {
                conn.close_hard().await;
                Err(TransactionFault::Outage(format!(
                    "BEGIN failed: {}",
                    self.sessions.explain(&error)
                )))
            }
        }
    }
}
