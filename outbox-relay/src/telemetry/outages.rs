//! Since when something is out, as the relay meets it: for readiness and metrics. What is told in the log, and how
//! often, is `troubles`.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Something that does not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outage {
    /// When it was met first, without an answer since.
    pub(crate) since: Instant,
    /// What was said last.
    pub(crate) error: String,
}

impl Outage {
    pub(crate) fn lasts(&self) -> Duration {
        self.since.elapsed()
    }
}

/// Whether something is out. Where it is not, the answer that it works costs one look at a flag.
#[derive(Debug, Default)]
pub(super) struct OutageState {
    open: AtomicBool,
    outage: Mutex<Option<Outage>>,
}

impl OutageState {
    /// It did not answer, or refused.
    pub(super) fn fails(&self, error: &str) {
        let mut outage = self.lock();
        let since = outage.as_ref().map_or_else(Instant::now, |outage| outage.since);
        *outage = Some(Outage { since, error: error.to_owned() });
        self.open.store(true, Relaxed);
    }

    /// It answers.
    pub(super) fn works(&self) {
        if self.open.load(Relaxed) {
            let mut outage = self.lock();
            *outage = None;
            self.open.store(false, Relaxed);
        }
    }

    /// The outage that lasts.
    pub(super) fn read(&self) -> Option<Outage> {
        if self.open.load(Relaxed) { self.lock().clone() } else { None }
    }

    /// As if it had begun so long ago.
    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        if let Some(outage) = &mut *self.lock() {
            outage.since = outage.since.checked_sub(by).unwrap_or(outage.since);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_from_its_first_failure_to_the_first_answer() {
        let state = OutageState::default();
        assert_eq!(state.read(), None);
        state.fails("refused");
        let since = state.read().unwrap().since;
        state.fails("silent");
        assert_eq!(state.read(), Some(Outage { since, error: "silent".into() }));
        state.works();
        assert_eq!(state.read(), None);
        state.fails("again");
        assert!(state.read().unwrap().since >= since);
    }
}
