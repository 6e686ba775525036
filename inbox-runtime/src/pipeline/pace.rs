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
pub(crate) struct Pace(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    /// The quickest of this minute and of the one before.
    quickest: [Duration; 2],
    beats: u32,
    /// Since the last beat.
    begun: u32,
    judged: Judged,
}

/// Those that are not judged yet.
#[derive(Debug, Default)]
struct Judged {
    all: u32,
    waited: u32,
    waited_calm: u32,
    /// Transactions that left events behind, which others could have taken.
    partly: u32,
}

impl Default for Pace {
    fn default() -> Self {
        let quickest = [Duration::MAX; 2];
        Self(Mutex::new(Seen { quickest, beats: 0, begun: 0, judged: Judged::default() }))
    }
}

impl Pace {
    /// A transaction was cut, and whether it has all that waited in its partition.
    pub(super) fn cut(&self, whole: bool) {
        self.seen().judged.partly += u32::from(!whole);
    }

    /// A BEGIN on an open connection took so long.
    pub(super) fn began(&self, took: Duration) {
        let mut seen = self.seen();
        seen.quickest[0] = seen.quickest[0].min(took);
        let quickest = seen.quickest[0].min(seen.quickest[1]).saturating_mul(QUICKEST);
        seen.begun = seen.begun.saturating_add(1);
        seen.judged.all += 1;
        seen.judged.waited += u32::from(took > quickest.saturating_add(ON_TOP));
        seen.judged.waited_calm += u32::from(took > quickest.saturating_add(ON_TOP_CALM));
    }

    /// How many transactions shall be open instead of so many, once enough have begun to tell: fewer if more
    /// than a quarter of them waited, more if not. While there is a backlog, one per partition at least.
    pub(super) fn judged(&self, room: usize, partitions: usize) -> Option<usize> {
        let mut seen = self.seen();
        if seen.judged.all < JUDGED {
            return None;
        }
        let Judged { all, waited, waited_calm, partly } = std::mem::take(&mut seen.judged);
        let many = |some: u32| some * PART > all;
        let (waited, least) = if many(partly) {
            (waited, partitions)
        } else {
            (waited_calm, CALM_MIN.min(partitions))
        };
        let room = if many(waited) { room.saturating_sub(step(room)) } else { room + step(room) };
        Some(room.max(least).max(1))
    }

    /// A second has passed. While hardly any begin, because handlers take long or nothing comes, nothing says
    /// that there are too many.
    pub(super) fn beat(&self, room: usize, partitions: usize) -> usize {
        let mut seen = self.seen();
        seen.beats += 1;
        if seen.beats == QUICKEST_KEPT {
            seen.beats = 0;
            seen.quickest = [Duration::MAX, seen.quickest[0]];
        }
        let few = std::mem::take(&mut seen.begun) < JUDGED;
        if few { room.max(partitions) + step(room) } else { room }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn step(room: usize) -> usize {
    (room / STEP).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{JUDGED, Pace, QUICKEST_KEPT};

    const QUICK: Duration = Duration::from_micros(100);
    /// Too long where nothing is left behind.
    const LONG: Duration = Duration::from_micros(700);
    /// Too long in a backlog, too.
    const SLOW: Duration = Duration::from_millis(2);

    fn begun(pace: &Pace, whole: bool, slow: (u32, Duration), quick: u32) {
        (0..slow.0 + quick).for_each(|_| pace.cut(whole));
        (0..quick).for_each(|_| pace.began(QUICK));
        (0..slow.0).for_each(|_| pace.began(slow.1));
    }

    #[test]
    fn fewer_while_many_wait_and_more_while_few_do() {
        let pace = Pace::default();
        for whole in [true, false] {
            begun(&pace, whole, (4, SLOW), 8);
            assert_eq!(pace.judged(64, 8), Some(56));
            begun(&pace, whole, (3, SLOW), 9);
            assert_eq!(pace.judged(56, 8), Some(63));
        }
        begun(&pace, true, (12, SLOW), 0);
        assert_eq!(pace.judged(1, 0), Some(1));
    }

    /// A backlog is settled soonest by many transactions; what comes as it is settled is served soonest by few.
    #[test]
    fn without_a_backlog_shorter_waits_are_too_long_and_fewer_than_partitions_may_be_open() {
        let pace = Pace::default();
        for (whole, took, room, fewer) in [
            (true, LONG, 16, 14),
            (true, LONG, 8, 7),
            (true, LONG, 4, 4),
            (false, LONG, 16, 18),
            (false, SLOW, 16, 14),
            (false, SLOW, 8, 8),
            (false, LONG, 4, 8),
        ] {
            begun(&pace, whole, (6, took), 6);
            assert_eq!(pace.judged(room, 8), Some(fewer), "{whole} {took:?} {room}");
        }
        begun(&pace, true, (6, LONG), 6);
        assert_eq!(pace.judged(2, 2), Some(2), "no fewer than partitions, when they are few");
    }

    /// A transaction that is full now and then is no backlog.
    #[test]
    fn a_quarter_that_leave_events_behind_are_none() {
        let pace = Pace::default();
        begun(&pace, false, (3, LONG), 0);
        begun(&pace, true, (6, LONG), 3);
        assert_eq!(pace.judged(8, 8), Some(7));
    }

    #[test]
    fn a_few_tell_nothing() {
        let pace = Pace::default();
        begun(&pace, true, (JUDGED - 2, SLOW), 1);
        assert_eq!(pace.judged(8, 8), None);
        begun(&pace, true, (1, SLOW), 0);
        assert_eq!(pace.judged(8, 8), Some(7));
    }

    /// A database that is far is not a busy one.
    #[test]
    fn what_always_takes_long_has_not_waited() {
        let pace = Pace::default();
        (0..JUDGED).for_each(|_| pace.began(SLOW * 10));
        assert_eq!(pace.judged(8, 8), Some(9));
    }

    /// Handlers that take long begin few transactions: those that are free shall not stay so.
    #[test]
    fn seconds_in_which_little_begins_bring_it_back() {
        let pace = Pace::default();
        begun(&pace, true, (3, SLOW), 0);
        assert_eq!((pace.beat(8, 8), pace.beat(16, 8), pace.beat(4, 8)), (9, 18, 9));
        begun(&pace, true, (JUDGED - 1, SLOW), 1);
        assert_eq!(pace.judged(8, 8), Some(7));
        assert_eq!(pace.beat(7, 8), 7, "enough to be judged");
    }

    #[test]
    fn the_quickest_is_forgotten_after_two_minutes() {
        let pace = Pace::default();
        pace.began(QUICK);
        for _ in 0..2 * QUICKEST_KEPT {
            pace.beat(8, 8);
        }
        (1..JUDGED).for_each(|_| pace.began(SLOW));
        assert_eq!(pace.judged(8, 8), Some(9));
    }
}
