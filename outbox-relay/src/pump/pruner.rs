//! Removing rows that were sent long ago.

use std::time::Duration;

use super::{LazySession, Pump, keeper::Lease};
use crate::{
    port::{Owners, Pruned},
    telemetry::Signal,
};

/// The table belongs to those who append, first of all.
const PAUSE: Duration = Duration::from_millis(20);
/// After so many passes one begins at the start again: what was set aside may have been sent since.
const PASSES: u32 = 60;

impl<F: Owners> Pump<F> {
    /// Removes old rows, a chunk at a time, as long as this relay has the first shard. What is set aside or held stays, and
    /// may be much, as may be what an open snapshot keeps of removed rows: a pass begins behind both.
    pub(super) async fn prune_for_ever(&self, lease: &Lease) {
        let mut session = LazySession::<F>::new(self.settings.clone());
        let mut begin = 0;
        for pass in 0_u32.. {
            let passed = begin;
            if pass.is_multiple_of(PASSES) {
                begin = 0;
            }
            tokio::time::sleep(self.options.prune_interval).await;
            if !lease.shards().has_first() {
                continue;
            }
            let mut after = begin;
            loop {
                let Pruned { removed, last, idle, end } =
                    match self.prune(&mut session, after).await {
                        Ok(pruned) => pruned,
                        Err(error) => {
                            self.troubles().prunes(Err(error));
                            // To read all of it may take longer than a statement may.
                            begin = begin.max(passed);
                            break;
                        }
                    };
                self.troubles().prunes(Ok(()));
                if removed > 0 {
                    self.counters.pruned.add(removed);
                    Signal::Pruned { removed }.emit();
                }
                let Some(last) = last.filter(|_| !end) else { break };
                if idle && begin == after {
                    begin = last;
                }
                after = last;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn prune(&self, session: &mut LazySession<F>, after: i64) -> Result<Pruned, String> {
        let (age, chunk) = (self.options.retention, self.options.prune_chunk);
        session.call(async |s| F::prune(s, age, chunk, after).await).await
    }
}
