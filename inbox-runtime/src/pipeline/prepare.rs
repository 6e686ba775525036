//! What codecs need from elsewhere is fetched before a transaction begins, never inside of one.

use inbox_engine::internal::TransactionFault;
use inbox_store::internal::port::Transactions;
use outbox_core::Preparation;

use super::{Delivered, handling::run_event, intake::IGNORED, transaction::Work};

impl<DB: Transactions> Work<DB> {
    /// Has codecs fetch what they lack for these events. What is not there is an outage, and no event's fault. Whatever
    /// else they say, they say again when they decode.
    pub(super) async fn prepare(&self, items: &[Delivered]) -> Result<(), TransactionFault> {
        for item in items {
            let Some(preparation) = self.preparation(item) else { continue };
            if let Err(error) = preparation.await
                && error.is_outage()
            {
                return Err(TransactionFault::Unreached(error.to_string()));
            }
        }
        Ok(())
    }

    /// Whether anything has to be fetched for these events.
    pub(super) fn is_prepared(&self, items: &[Delivered]) -> bool {
        items.iter().all(|item| self.preparation(item).is_none())
    }

    fn preparation(&self, item: &Delivered) -> Option<Preparation<'_>> {
        let runs = item.doomed.is_none() && item.kind.route != IGNORED.route;
        runs.then(|| self.routes.prepare(item.kind.route, &run_event(item)))?
    }
}
