//! What codecs need from elsewhere is fetched before a transaction begins, never inside of one.

use inbox_engine::internal::TransactionFault;
use inbox_store::internal::port::Transactions;
use outbox_core::Preparation;
use tokio::time::timeout;

use super::{
    Delivered, handling::run_event, intake::IGNORED, parked::event_type, transaction::Work,
};

impl<DB: Transactions> Work<DB> {
    /// Has codecs fetch what they lack for these events. What is not there, or does not come within an attempt's time, is
    /// an outage, and no event's fault. Whatever else they say, they say again when they decode.
    pub(super) async fn prepare(&self, items: &[Delivered]) -> Result<(), TransactionFault> {
        for item in items {
            let Some(preparation) = self.preparation(item) else { continue };
            let error = match timeout(self.attempt_deadline, preparation).await {
                Ok(Err(error)) if error.is_outage() => error.to_string(),
                Ok(_) => continue,
                Err(_) => format!(
                    "the codec of `{}` did not finish fetching within {:?}",
                    event_type(item),
                    self.attempt_deadline
                ),
            };
            return Err(TransactionFault::Unreached(error));
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
