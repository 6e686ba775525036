//! A crash on purpose, for tests of handlers. A transaction's connection is cut at a moment, and the runtime
//! never hears how the transaction ended.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use inbox_engine::Outcome;

use super::{
    port::Store,
    transaction::{End, Transaction},
};

/// When.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    /// Everything is written; COMMIT is not sent.
    BeforeCommit,
    /// COMMIT is done; its answer is lost.
    AfterCommit,
}

impl Moment {
    fn number(self) -> u8 {
        match self {
            Self::BeforeCommit => 1,
            Self::AfterCommit => 2,
        }
    }
}

/// The moment of the next crash, if there is to be one.
#[derive(Debug, Default)]
pub(crate) struct Crash(AtomicU8);

impl Crash {
    /// The next transaction that passes the moment crashes there.
    pub(crate) fn arm(&self, moment: Moment) {
        self.0.store(moment.number(), SeqCst);
    }

    /// Whether to crash here; once.
    fn here(&self, moment: Moment) -> bool {
        self.0.compare_exchange(moment.number(), 0, SeqCst, SeqCst).is_ok()
    }

    /// Whether the crash has still to come; it comes no more.
    pub(crate) fn disarm(&self) -> bool {
        self.0.swap(0, SeqCst) != 0
    }
}

impl<DB: Store> Transaction<'_, DB> {
    /// Ends the transaction as a crash does, if it is to end here: the connection is closed, and what
    /// became of it is not known.
    pub(super) fn crash(&self, moment: Moment) -> Result<(), End> {
        if self.work.crash.here(moment) {
            return Err(End::Closed(Outcome::Unknown("a test cut the connection".into())));
        }
        Ok(())
    }
}
