//! The partition of direct events, found or made.

use inbox_engine::internal::{LogRange, NextOffset, Start};
use inbox_store::internal::port::{IntakePartition, OpenError, Owners, TakeOver, TakeOverError};

use super::{Direct, DirectSettings};

impl<DB: Owners> Direct<DB> {
    /// Finds the partition, and makes it where it is not.
    ///
    /// # Errors
    /// When the database is away, or a person has to change something.
    pub async fn open(&self) -> Result<(), OpenError> {
        let mut conn = self.work.sessions.take().await?;
        match self.find_or_make(&mut conn).await {
            Ok(partition) => {
                self.work.sessions.give_back(conn).await;
                self.set(partition);
                Ok(())
            }
            Err(fault) => {
                conn.close_hard().await;
                Err(fault)
            }
        }
    }

    async fn find_or_make(&self, conn: &mut DB::Connection) -> Result<IntakePartition, OpenError> {
        if let Some(partition) = self.find(conn).await? {
            return Ok(partition);
        }
        // Another process may do the same: then the epoch is raised once more, and what is under way is fenced and looks
        // anew.
        DB::take_over(conn, &self.request()).await.map_err(|error| self.fault(error))?;
        let made = self.find(conn).await?;
        made.ok_or_else(|| OpenError::Outage("its partition was retired while it was made".into()))
    }

    async fn find(&self, conn: &mut DB::Connection) -> Result<Option<IntakePartition>, OpenError> {
        let found = DB::intake_partition(conn, &self.request()).await;
        found.map_err(|error| self.fault(error))
    }

    fn fault(&self, error: TakeOverError) -> OpenError {
        match error {
            TakeOverError::Standstill(reason) => OpenError::Refused(reason.to_string()),
            TakeOverError::Database(error) => {
                let error = self.work.sessions.explain(&error);
                OpenError::Outage(format!(
                    "looking for the partition of the intake failed: {error}"
                ))
            }
        }
    }

    fn request(&self) -> TakeOver {
        let DirectSettings { consumer, owner, place, lanes, id_scope } = self.settings.clone();
        TakeOver {
            consumer,
            partition: place,
            topic_id: [0; 16],
            partitions: None,
            owner,
            lanes,
            id_scope,
            committed: None,
            mark: None,
            // There is no log that could end below what is settled, not even where the partition was retired.
            log: LogRange { start: NextOffset(0), end: NextOffset(i64::MAX) },
            start: Start::Earliest,
            held: None,
        }
    }
}
