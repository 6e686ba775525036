//! A point in time that may be put off while others wait for it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Until when something may go on. All clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    pub(crate) fn new(at: Instant) -> Self {
        Self(Arc::new(Mutex::new(at)))
    }

    /// When it is, as things stand.
    pub(crate) fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has passed.
    pub(crate) fn passed(&self) -> bool {
        Instant::now() >= self.at()
    }

    /// Puts it off; never brings it forward.
    pub(crate) fn extend(&self, to: Instant) {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *at = (*at).max(to);
    }

    /// Makes it now.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}
