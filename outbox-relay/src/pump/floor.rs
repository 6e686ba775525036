//! Where looks begin. What was sent stays in the index of what waits as long as any old transaction of the
//! database is open, and each look would read all of it.

use std::time::{Duration, Instant};

use inbox_engine::internal::Rule;

use crate::port::Appenders;

/// Looks that take longer, one with another, read what nobody needs; or the database is far, and it costs little to
/// have asked.
const SLOW: Duration = Duration::from_millis(5);
/// How much the last look counts.
const LAST: u32 = 4;
/// Between two attempts to begin higher, and so many times as long as a look takes.
const EVERY: Duration = Duration::from_millis(100);
const EVERY_LOOKS: u32 = 20;
/// Rows with old numbers that were written by hand are found after this, too; later where it takes long to read all that
/// was sent.
const FROM_THE_START: Duration = Duration::from_mins(1);

/// Up to which number no row waits, nor can come to wait unseen.
#[derive(Debug)]
pub(super) struct Floor {
    above: i64,
    /// When looks last began at the start, and how long the last one took that did so for such rows.
    since: Instant,
    all_took: Duration,
    /// The next look begins at the start, once.
    once: bool,
    /// How long looks take.
    took: Duration,
    tried: Option<Instant>,
    pending: Option<Pending>,
}

/// Who has to end before looks may begin higher.
#[derive(Debug)]
struct Pending {
    appenders: Appenders,
    /// They have: the next look sees all that they have left.
    ended: bool,
}

impl Floor {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            above: 0,
            since: now,
            all_took: Duration::ZERO,
            once: false,
            took: Duration::ZERO,
            tried: None,
            pending: None,
        }
    }

    /// Looks begin above this number.
    pub(super) fn above(&self) -> i64 {
        if self.once { 0 } else { self.above }
    }

    /// A look has been, which took so long and found this as its first row. `true`: ask who may still append.
    pub(super) fn note_query(&mut self, first: Option<i64>, took: Duration, now: Instant) -> bool {
        if let Some(Pending { appenders, .. }) = self.pending.take_if(|pending| pending.ended) {
            self.above = first.map_or(appenders.most, |first| appenders.most.min(first - 1));
            debug_assert!(first.is_none_or(|first| first > self.above), "what waits is above");
        }
        if std::mem::take(&mut self.once) {
            // It reads what no other look does: how long it took says nothing of those.
            (self.since, self.all_took) = (now, took);
            self.above = first.map_or(self.above, |first| self.above.min(first - 1));
            return false;
        }
        let every = FROM_THE_START.max(self.all_took * EVERY_LOOKS);
        self.once = self.above > 0 && now.duration_since(self.since) > every;
        self.took = (self.took * (LAST - 1) + took) / LAST;
        if self.pending.is_some() {
            return true;
        }
        let often = self
            .tried
            .is_some_and(|tried| now.duration_since(tried) < EVERY.max(self.took * EVERY_LOOKS));
        if self.took < SLOW || often {
            return false;
        }
        self.tried = Some(now);
        true
    }

    /// The answer: who may still append rows with small numbers. `None`: nobody can tell.
    pub(super) fn note_appenders(&mut self, now_open: Option<Appenders>) {
        let Some(appenders) = now_open else { return };
        match &mut self.pending {
            Some(pending) => {
                let open = |it: &String| appenders.open.contains(it);
                pending.ended = !pending.appenders.open.iter().any(open);
            }
            None => {
                let ended = appenders.open.is_empty() || !Rule::FloorWaitsForAppenders.on();
                self.pending = Some(Pending { appenders, ended });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appenders(most: i64, open: &[&str]) -> Appenders {
        Appenders { most, open: open.iter().map(|it| (*it).to_owned()).collect() }
    }

    #[test]
    fn looks_begin_higher_when_whoever_may_append_below_has_ended() {
        let now = Instant::now();
        let mut floor = Floor::new(now);
        assert!(
            !floor.note_query(Some(900), Duration::from_millis(10), now),
            "one of them may be slow"
        );
        assert!(floor.note_query(Some(900), Duration::from_millis(90), now));
        floor.note_appenders(Some(appenders(950, &["3/7", "4/9"])));
        assert!(floor.note_query(Some(910), Duration::from_millis(90), now));
        floor.note_appenders(Some(appenders(990, &["4/9", "5/1"])));
        assert_eq!(floor.above(), 0, "one of them is open");
        assert!(floor.note_query(Some(915), Duration::from_millis(90), now));
        floor.note_appenders(Some(appenders(999, &["5/1"])));
        assert_eq!(floor.above(), 0, "the look after their end counts");
        assert!(!floor.note_query(Some(920), Duration::from_millis(2), now));
        assert_eq!(floor.above(), 919);
        assert!(floor.note_query(None, Duration::from_millis(90), now + Duration::from_secs(2)));
        floor.note_appenders(Some(appenders(1_000, &[])));
        floor.note_query(None, Duration::ZERO, now + Duration::from_secs(2));
        assert_eq!(floor.above(), 1_000, "nothing waits");
    }

    /// While a snapshot is open that look reads all that was sent since.
    #[test]
    fn one_look_begins_at_the_start_from_time_to_time() {
        let mut now = Instant::now();
        let mut floor = Floor { above: 1_000, ..Floor::new(now) };
        let long = Duration::from_secs(6);
        let mut pass = |floor: &mut Floor, time, first, took| {
            now += time;
            floor.note_query(first, took, now)
        };
        pass(&mut floor, FROM_THE_START + EVERY, Some(1_200), Duration::ZERO);
        assert_eq!(floor.above(), 0);
        assert!(!pass(&mut floor, EVERY, Some(1_201), long), "nobody has to be asked");
        assert_eq!(floor.above(), 1_000, "there was nothing below");
        pass(&mut floor, FROM_THE_START + EVERY, Some(1_202), Duration::ZERO);
        assert_eq!(floor.above(), 1_000, "a twentieth of the time is the most");
        pass(&mut floor, FROM_THE_START, Some(1_203), Duration::ZERO);
        assert_eq!(floor.above(), 0);
        pass(&mut floor, EVERY, Some(300), long);
        assert_eq!(floor.above(), 299, "somebody has written it by hand");
    }
}
