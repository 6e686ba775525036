//! How many transactions go on side by side: fewer while the database, or this machine, is too busy for them.
//!
//! A transaction more is worth its connection where events wait for something else than a processor: for a
//! network, a lock, a remote call of a handler. Where processors are what is short, it only makes all others
//! slower. BEGIN tells which it is: it costs the same whatever follows it, so one that takes long has waited.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A BEGIN has waited when it takes longer than so many of the quickest ones, and this on top of them.
const QUICKEST: u32 = 4;
const ON_TOP: Duration = Duration::from_millis(1);
/// This on top of them while no events are left behind. A backlog is settled soonest by many transactions, though
/// each waits a little for the others; without one, fewer and larger transactions do the same with less work.
const ON_TOP_CALM: Duration = Duration::from_micros(250);
/// So many of them are judged together; more than a quarter that waited are too many. With a half, two processes
/// beside each other stayed where they were.
const JUDGED: u32 = 12;
const PART: u32 = 4;
/// Of what is allowed now, the part that it changes by; one at least.
const STEP: usize = 8;
/// So many may be open where there is no backlog, however much they wait. With three, two cores could do less.
const CALM_MIN: usize = 4;
/// For so many seconds, and as many again, the quickest one counts: a network may have become another one.
const QUICKEST_KEPT: u32 = 60;

/// What BEGINs took lately.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter(Mutex<BeginTimes>);

#[derive(Debug)]
struct BeginTimes {
    /// The quickest of this minute and of the one before.
    quickest: [Duration; 2],
    ticks: u32,
    /// Since the last tick.
    begun: u32,
    sample: Sample,
}

/// Those that are not judged yet.
#[derive(Debug, Default)]
struct Sample {
    all: u32,
    waited: u32,
    waited_calm: u32,
    /// Transactions that left events behind, which others could have taken.
    partly: u32,
}

impl Default for ConcurrencyLimiter {
    fn default() -> Self {
        let quickest = [Duration::MAX; 2];
        Self(Mutex::new(BeginTimes { quickest, ticks: 0, begun: 0, sample: Sample::default() }))
    }
}

impl ConcurrencyLimiter {
    /// A transaction was cut, and whether it has all that waited in its partition.
    pub(super) fn record_cut(&self, whole: bool) {
        self.lock().sample.partly += u32::from(!whole);
    }

    /// A BEGIN on an open connection took so long.
    pub(super) fn record_begin(&self, took: Duration) {
        let mut times = self.lock();
        times.quickest[0] = times.quickest[0].min(took);
        let quickest = times.quickest[0].min(times.quickest[1]).saturating_mul(QUICKEST);
        times.begun = times.begun.saturating_add(1);
        times.sample.all += 1;
        times.sample.waited += u32::from(took > quickest.saturating_add(ON_TOP));
        times.sample.waited_calm += u32::from(took > quickest.saturating_add(ON_TOP_CALM));
    }

    /// How many transactions shall be open instead of so many, once enough have begun to tell: fewer if more
    /// than a quarter of them waited, more if not. While there is a backlog, one per partition at least.
    pub(super) fn judge(&self, permits: usize, partitions: usize) -> Option<usize> {
        let mut times = self.lock();
        if times.sample.all < JUDGED {
            return None;
        }
        let Sample { all, waited, waited_calm, partly } = std::mem::take(&mut times.sample);
        let many = |some: u32| some * PART > all;
        let (waited, least) = if many(partly) {
            (waited, partitions)
        } else {
            (waited_calm, CALM_MIN.min(partitions))
        };
        let permits = if many(waited) {
            permits.saturating_sub(step(permits))
        } else {
            permits + step(permits)
        };
        Some(permits.max(least).max(1))
    }

    /// A second has passed. While hardly any begin, because handlers take long or nothing comes, nothing says
    /// that there are too many.
    pub(super) fn tick(&self, permits: usize, partitions: usize) -> usize {
        let mut times = self.lock();
        times.ticks += 1;
        if times.ticks == QUICKEST_KEPT {
            times.ticks = 0;
            times.quickest = [Duration::MAX, times.quickest[0]];
        }
        let few = std::mem::take(&mut times.begun) < JUDGED;
        if few { permits.max(partitions) + step(permits) } else { permits }
    }

    fn lock(&self) -> MutexGuard<'_, BeginTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn step(permits: usize) -> usize {
    (permits / STEP).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ConcurrencyLimiter, JUDGED, QUICKEST_KEPT};

    const QUICK: Duration = Duration::from_micros(100);
    /// Too long where nothing is left behind.
    const LONG: Duration = Duration::from_micros(700);
    /// Too long in a backlog, too.
    const SLOW: Duration = Duration::from_millis(2);

    fn record(limiter: &ConcurrencyLimiter, whole: bool, slow: (u32, Duration), quick: u32) {
        (0..slow.0 + quick).for_each(|_| limiter.record_cut(whole));
        (0..quick).for_each(|_| limiter.record_begin(QUICK));
        (0..slow.0).for_each(|_| limiter.record_begin(slow.1));
    }

    #[test]
    fn fewer_while_many_wait_and_more_while_few_do() {
        let limiter = ConcurrencyLimiter::default();
        for whole in [true, false] {
            record(&limiter, whole, (4, SLOW), 8);
            assert_eq!(limiter.judge(64, 8), Some(56));
            record(&limiter, whole, (3, SLOW), 9);
            assert_eq!(limiter.judge(56, 8), Some(63));
        }
        record(&limiter, true, (12, SLOW), 0);
        assert_eq!(limiter.judge(1, 0), Some(1));
    }

    /// A backlog is settled soonest by many transactions; what comes as it is settled is served soonest by few.
    #[test]
    fn without_a_backlog_shorter_waits_are_too_long_and_fewer_than_partitions_may_be_open() {
        let limiter = ConcurrencyLimiter::default();
        for (whole, took, permits, fewer) in [
            (true, LONG, 16, 14),
            (true, LONG, 8, 7),
            (true, LONG, 4, 4),
            (false, LONG, 16, 18),
            (false, SLOW, 16, 14),
            (false, SLOW, 8, 8),
            (false, LONG, 4, 8),
        ] {
            record(&limiter, whole, (6, took), 6);
            assert_eq!(limiter.judge(permits, 8), Some(fewer), "{whole} {took:?} {permits}");
        }
        record(&limiter, true, (6, LONG), 6);
        assert_eq!(limiter.judge(2, 2), Some(2), "no fewer than partitions, when they are few");
    }

    /// A transaction that is full now and then is no backlog.
    #[test]
    fn a_quarter_that_leave_events_behind_are_none() {
        let limiter = ConcurrencyLimiter::default();
        record(&limiter, false, (3, LONG), 0);
        record(&limiter, true, (6, LONG), 3);
        assert_eq!(limiter.judge(8, 8), Some(7));
    }

    #[test]
    fn a_few_tell_nothing() {
        let limiter = ConcurrencyLimiter::default();
        record(&limiter, true, (JUDGED - 2, SLOW), 1);
        assert_eq!(limiter.judge(8, 8), None);
        record(&limiter, true, (1, SLOW), 0);
        assert_eq!(limiter.judge(8, 8), Some(7));
    }

    /// A database that is far is not a busy one.
    #[test]
    fn what_always_takes_long_has_not_waited() {
        let limiter = ConcurrencyLimiter::default();
        (0..JUDGED).for_each(|_| limiter.record_begin(SLOW * 10));
        assert_eq!(limiter.judge(8, 8), Some(9));
    }

    /// Handlers that take long begin few transactions: those that are free shall not stay so.
    #[test]
    fn seconds_in_which_little_begins_bring_it_back() {
        let limiter = ConcurrencyLimiter::default();
        record(&limiter, true, (3, SLOW), 0);
        assert_eq!((limiter.tick(8, 8), limiter.tick(16, 8), limiter.tick(4, 8)), (9, 18, 9));
        record(&limiter, true, (JUDGED - 1, SLOW), 1);
        assert_eq!(limiter.judge(8, 8), Some(7));
        assert_eq!(limiter.tick(7, 8), 7, "enough to be judged");
    }

    #[test]
    fn the_quickest_is_forgotten_after_two_minutes() {
        let limiter = ConcurrencyLimiter::default();
        limiter.record_begin(QUICK);
        for _ in 0..2 * QUICKEST_KEPT {
            limiter.tick(8, 8);
        }
        (1..JUDGED).for_each(|_| limiter.record_begin(SLOW));
        assert_eq!(limiter.judge(8, 8), Some(9));
    }
}
