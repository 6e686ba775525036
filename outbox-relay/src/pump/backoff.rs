//! Waits that grow.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);

/// Doubles from a tenth of a second up to a limit; a quarter of each wait is chance, so that relays that
/// failed together do not come back together.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(super) fn new(max: Duration) -> Self {
        Self { next: FIRST.min(max), max }
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.max);
        let chance = uuid::Uuid::new_v4().as_u128() % 256;
        let part = u32::try_from(chance).unwrap_or(0);
        wait.saturating_sub(wait / 4 * part / 256)
    }

    /// Things go well again.
    pub(super) fn reset(&mut self) {
        self.next = FIRST.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_begin_again() {
        let mut backoff = Backoff::new(Duration::from_millis(350));
        for most in [100, 200, 350, 350] {
            let wait = backoff.next();
            assert!(wait <= Duration::from_millis(most), "{wait:?}");
            assert!(wait >= Duration::from_millis(most * 3 / 4), "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
