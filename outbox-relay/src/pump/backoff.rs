//! Waits that grow.

use std::time::Duration;

use inbox_engine::internal::backoff;

const FIRST: Duration = Duration::from_millis(100);

/// Doubles from a tenth of a second up to a limit, with chance in it: [`backoff`].
#[derive(Debug)]
pub(super) struct Backoff {
    tries: u32,
    max: Duration,
}

impl Backoff {
    pub(super) fn new(max: Duration) -> Self {
        Self { tries: 0, max }
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let chance = uuid::Uuid::new_v4().as_u64_pair().1;
        let wait = backoff(millis(FIRST.min(self.max)), millis(self.max), self.tries, chance);
        self.tries = self.tries.saturating_add(1);
        Duration::from_millis(wait)
    }

    /// Things go well again.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
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
            assert!(wait >= Duration::from_millis(most / 2), "{wait:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
