//! When a parked event is released by itself.

use std::time::Duration;

use inbox_engine::internal::backoff;

/// How often, and after which delays, an event that was parked after its last quick attempt is
/// released by itself. Each round calls its handler once; the delay doubles from round to round, and
/// the upper half of each is chance, so that a thousand events that failed together do not come back
/// together. After the last round the event waits for a person.
///
/// ```
/// use inbox_consumer::Schedule;
/// use std::time::Duration;
///
/// let patient = Schedule {
///     delay_min: Duration::from_secs(30),
///     delay_max: Duration::from_secs(3600),
///     releases_max: 50,
/// };
/// assert_eq!(Schedule::NEVER.releases_max, 0);
/// # let _ = patient;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// The delay before the first release.
    pub delay_min: Duration,
    /// The longest delay.
    pub delay_max: Duration,
    /// Rounds; none with 0.
    pub releases_max: u32,
}

impl Schedule {
    /// Only a person releases.
    pub const NEVER: Self =
        Self { delay_min: Duration::ZERO, delay_max: Duration::ZERO, releases_max: 0 };

    /// The delay after so many rounds; `None` when there is none left. `chance` is any number.
    #[doc(hidden)]
    pub fn delay(&self, releases: u32, chance: u64) -> Option<Duration> {
        if releases >= self.releases_max {
            return None;
        }
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let wait = backoff(millis(self.delay_min), millis(self.delay_max), releases, chance);
        Some(Duration::from_millis(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn schedule() -> Schedule {
        Schedule { delay_min: MINUTE, delay_max: 10 * MINUTE, releases_max: 6 }
    }

    #[test]
    fn a_delay_doubles_up_to_the_longest_and_then_there_is_none() {
        for (releases, full) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 10), (5, 10)] {
            for chance in [0, 1, 12_345, u64::MAX] {
                let delay = schedule().delay(releases, chance).unwrap();
                let (low, high) = (full * MINUTE / 2, full * MINUTE);
                assert!(low <= delay && delay <= high, "{releases}: {delay:?}");
            }
        }
        assert_eq!(schedule().delay(6, 0), None);
    }

    #[test]
    fn events_that_failed_together_come_back_apart() {
        let delays: std::collections::BTreeSet<_> =
            (0..1_000_u64).map(|n| schedule().delay(0, n * 7_919).unwrap()).collect();
        assert!(delays.len() > 500, "{} delays", delays.len());
    }

    #[test]
    fn extremes_are_no_accident() {
        assert_eq!(Schedule::NEVER.delay(0, 9), None);
        let odd = Schedule { delay_min: 2 * MINUTE, delay_max: MINUTE, releases_max: u32::MAX };
        assert!(odd.delay(u32::MAX - 1, 5).unwrap() <= 2 * MINUTE);
        let long = Schedule { delay_min: Duration::MAX, delay_max: Duration::MAX, releases_max: 1 };
        assert!(long.delay(0, u64::MAX).unwrap() >= Duration::from_millis(u64::MAX / 2));
    }
}
