//! A point in time that may be put off while others wait for it.

use std::{
    ops::Add,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A point in time on a clock that also counts while the machine is suspended, as the database's does. The clock of
/// [`Instant`] does not: a process that wakes up would trust a lease that another one has acquired meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    instant: Instant,
    /// How long the machine had been suspended since it was started.
    suspended: Duration,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Instant::now().into()
    }

    /// The same on the clock of this process, which has been suspended for so long in all.
    fn instant(self, suspended: Duration) -> Instant {
        let meanwhile = suspended.saturating_sub(self.suspended);
        self.instant.checked_sub(meanwhile).unwrap_or_else(Instant::now)
    }
}

impl From<Instant> for Moment {
    fn from(instant: Instant) -> Self {
        Self { instant, suspended: suspended() }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self { instant: self.instant + time, ..self }
    }
}

/// How long the machine has been suspended since it was started. Elsewhere than on Linux: unknown, never.
fn suspended() -> Duration {
    #[cfg(target_os = "linux")]
    {
        use rustix::time::{ClockId, clock_gettime};
        let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        // In this order a pause between the two looks like a suspension: the lease ends early, not late.
        let running = read(ClockId::Monotonic);
        read(ClockId::Boottime).saturating_sub(running)
    }
    #[cfg(not(target_os = "linux"))]
    Duration::ZERO
}

/// Until when something may go on. All clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Deadline(Arc<Mutex<Moment>>);

impl Deadline {
    pub(crate) fn new(at: impl Into<Moment>) -> Self {
        Self(Arc::new(Mutex::new(at.into())))
    }

    /// When it is, as things stand.
    pub(crate) fn at(&self) -> Instant {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).instant(suspended())
    }

    /// Whether it has passed.
    pub(crate) fn passed(&self) -> bool {
        Instant::now() >= self.at()
    }

    /// Puts it off; never brings it forward.
    pub(crate) fn extend(&self, to: impl Into<Moment>) {
        let (to, suspended) = (to.into(), suspended());
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if to.instant(suspended) > at.instant(suspended) {
            *at = to;
        }
    }

    /// Makes it now.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Moment::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn time_in_suspension_counts() {
        let asked = Moment::now();
        let ends = asked + 15 * SECOND;
        assert_eq!(ends.instant(asked.suspended), asked.instant + 15 * SECOND);
        let woken = asked.suspended + 10 * SECOND;
        assert_eq!(ends.instant(woken), asked.instant + 5 * SECOND);
        // A lease that was renewed before the suspension is no later than one renewed since.
        let renewed = Moment { instant: asked.instant + SECOND, suspended: woken } + 15 * SECOND;
        assert!(renewed.instant(woken) > ends.instant(woken));
    }

    #[test]
    fn a_deadline_is_put_off_and_never_brought_forward() {
        let now = Moment::now();
        let deadline = Deadline::new(now + 10 * SECOND);
        deadline.extend(now + 5 * SECOND);
        assert!(deadline.at() > now.instant + 9 * SECOND);
        deadline.extend(now + 20 * SECOND);
        assert!(deadline.at() > now.instant + 19 * SECOND);
        deadline.end();
        assert!(deadline.passed());
    }
}
