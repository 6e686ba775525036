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
/// So many of them are judged together; more than a quarter that waited are too many. With a half, two processes
/// beside each other stayed where they were.
const JUDGED: u32 = 12;
const PART: u32 = 4;
/// Of what is allowed now, the part that it changes by; one at least.
const STEP: usize = 8;
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
    /// Of those that are not judged yet.
    waited: u32,
    all: u32,
    /// All since the last beat.
    begun: u32,
}

impl Default for Pace {
    fn default() -> Self {
        let quickest = [Duration::MAX; 2];
        Self(Mutex::new(Seen { quickest, beats: 0, waited: 0, all: 0, begun: 0 }))
    }
}

impl Pace {
    /// A BEGIN on an open connection took so long.
    pub(super) fn began(&self, took: Duration) {
        let mut seen = self.seen();
        seen.quickest[0] = seen.quickest[0].min(took);
        let quickest = seen.quickest[0].min(seen.quickest[1]);
        (seen.all, seen.begun) = (seen.all + 1, seen.begun.saturating_add(1));
        seen.waited += u32::from(took > quickest.saturating_mul(QUICKEST).saturating_add(ON_TOP));
    }

    /// How many transactions shall be open instead of so many, once enough have begun to tell: fewer if more
    /// than a quarter of them waited, more if not.
    pub(super) fn judged(&self, room: usize) -> Option<usize> {
        let mut seen = self.seen();
        if seen.all < JUDGED {
            return None;
        }
        let busy = seen.waited * PART > seen.all;
        (seen.all, seen.waited) = (0, 0);
        Some(if busy { room.saturating_sub(step(room)).max(1) } else { room + step(room) })
    }

    /// A second has passed. While hardly any begin, because handlers take long or nothing comes, nothing says
    /// that there are too many.
    pub(super) fn beat(&self, room: usize) -> usize {
        let mut seen = self.seen();
        seen.beats += 1;
        if seen.beats == QUICKEST_KEPT {
            seen.beats = 0;
            seen.quickest = [Duration::MAX, seen.quickest[0]];
        }
        let few = std::mem::take(&mut seen.begun) < JUDGED;
        if few { room + step(room) } else { room }
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
    const SLOW: Duration = Duration::from_millis(2);

    fn begun(pace: &Pace, slow: u32, quick: u32) {
        (0..quick).for_each(|_| pace.began(QUICK));
        (0..slow).for_each(|_| pace.began(SLOW));
    }

    #[test]
    fn fewer_while_many_wait_and_more_while_few_do() {
        let pace = Pace::default();
        begun(&pace, 4, 8);
        assert_eq!(pace.judged(64), Some(56));
        begun(&pace, 3, 9);
        assert_eq!(pace.judged(56), Some(63));
        begun(&pace, 12, 0);
        assert_eq!(pace.judged(1), Some(1));
    }

    #[test]
    fn a_few_tell_nothing() {
        let pace = Pace::default();
        begun(&pace, JUDGED - 2, 1);
        assert_eq!(pace.judged(8), None);
        begun(&pace, 1, 0);
        assert_eq!(pace.judged(8), Some(7));
    }

    /// A database that is far is not a busy one.
    #[test]
    fn what_always_takes_long_has_not_waited() {
        let pace = Pace::default();
        (0..JUDGED).for_each(|_| pace.began(SLOW * 10));
        assert_eq!(pace.judged(8), Some(9));
    }

    /// Handlers that take long begin few transactions: those that are free shall not stay so.
    #[test]
    fn seconds_in_which_little_begins_bring_it_back() {
        let pace = Pace::default();
        begun(&pace, 3, 0);
        assert_eq!((pace.beat(8), pace.beat(16)), (9, 18));
        begun(&pace, JUDGED - 1, 1);
        assert_eq!(pace.judged(8), Some(7));
        assert_eq!(pace.beat(7), 7, "enough to be judged");
    }

    #[test]
    fn the_quickest_is_forgotten_after_two_minutes() {
        let pace = Pace::default();
        pace.began(QUICK);
        for _ in 0..2 * QUICKEST_KEPT {
            pace.beat(8);
        }
        (1..JUDGED).for_each(|_| pace.began(SLOW));
        assert_eq!(pace.judged(8), Some(9));
    }
}
