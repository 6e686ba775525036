//! Whether copies of events have come lately.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Claims without a copy until none is expected any more. A claim that meets one then runs again: one in so many at most.
const QUIET: u32 = 200;

/// Where no copy has come lately, a claim need not look for its ids before it inserts them.
#[derive(Debug, Default)]
pub(super) struct RecentCopies {
    /// So many claims without one are still to come.
    left: AtomicU32,
}

impl RecentCopies {
    /// Whether another one is to be expected.
    pub(super) fn are_expected(&self) -> bool {
        self.left.load(Relaxed) > 0
    }

    /// A claim has met some, or has failed and does not tell why.
    pub(super) fn meet(&self) {
        self.left.store(QUIET, Relaxed);
    }

    /// A claim has met none.
    pub(super) fn miss(&self) {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_expected_until_many_claims_have_met_none() {
        let copies = RecentCopies::default();
        assert!(!copies.are_expected());
        copies.meet();
        for _ in 1..QUIET {
            copies.miss();
        }
        assert!(copies.are_expected());
        copies.miss();
        assert!(!copies.are_expected());
        copies.miss();
        assert!(!copies.are_expected());
    }
}
