//! Before rows are read: whether new ones get numbers above those of all others.

use std::time::Instant;

use super::{Pump, work::Work};
use crate::{
    port::{Finding, Owners},
    telemetry::Signal,
};

impl<F: Owners> Pump<F> {
    /// Stands still until they do; `false` when the relay is asked to end. The database is asked once in a turn,
    /// and on each new session: behind it may be another server, with a turn that was copied.
    pub(super) async fn may_read(&self, work: &mut Work<'_, F>) -> bool {
        if work.knows_session() {
            return !self.is_ending();
        }
        let Work { lease, session, progress, numbered: asked, .. } = work;
        let (mut backoff, mut told) = (self.backoff(), false);
        while !self.is_ending() {
            match session.call(async |s| F::numbering(s).await).await {
                Ok(Some(Finding { fatal: true, text })) => {
                    lease.report_standstill(&text);
                    if !told {
                        Signal::SequenceBehind { reason: text }.emit();
                    }
                    told = true;
                }
                Ok(_) => {
                    progress.begin_session(Instant::now());
                    *asked = session.number();
                    return true;
                }
                Err(error) => {
                    lease.report_outage(error.clone());
                    self.database_out(error);
                }
            }
            self.pause(backoff.next()).await;
        }
        false
    }
}
