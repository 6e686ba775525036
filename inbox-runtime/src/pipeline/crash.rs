//! A crash on purpose, for tests of handlers. A transaction's connection is cut at a moment, and the runtime
//! never hears how the transaction ended.

use std::sync::{Mutex, MutexGuard, PoisonError};

use inbox_engine::internal::{BatchOutcome, Offset, TransactionFault};
use inbox_store::internal::port::Transactions;

use super::{
    Delivered,
    transaction::{EarlyEnd, Transaction},
};

/// When.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Everything is written; COMMIT is not sent.
    BeforeCommit,
    /// COMMIT is done; its answer is lost.
    AfterCommit,
}

/// The next crash, if there is to be one: its moment, and the event whose transaction it ends.
#[derive(Debug, Default)]
pub struct Crash(Mutex<Option<(Moment, Offset)>>);

impl Crash {
    /// The transaction with the event at this offset crashes at the moment.
    pub fn arm(&self, moment: Moment, offset: Offset) {
        *self.next() = Some((moment, offset));
    }

    /// Whether to crash here; once.
    fn here(&self, moment: Moment, items: &[Delivered]) -> bool {
        let is_in = |offset| items.iter().any(|item| item.offset == offset);
        self.next().take_if(|(at, offset)| *at == moment && is_in(*offset)).is_some()
    }

    /// Whether the crash has still to come.
    pub fn armed(&self) -> bool {
        self.next().is_some()
    }

    /// Whether the crash has still to come; it comes no more.
    pub fn disarm(&self) -> bool {
        self.next().take().is_some()
    }

    fn next(&self) -> MutexGuard<'_, Option<(Moment, Offset)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// Ends the transaction as a crash does, if it is to end here: the connection is closed, and what
    /// became of it is not known.
    pub(super) fn crash(&self, moment: Moment) -> Result<(), EarlyEnd> {
        if self.work.state.crash.here(moment, &self.batch.items) {
            return Err(EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Unknown(
                "a test cut the connection".into(),
            ))));
        }
        Ok(())
    }
}
