//! Being fenced by the broker again and again, though the turn is ours.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;

/// So many within [`WINDOW`] are no accident: a sleeper that wakes fences its successor once.
const MANY: usize = 3;
const WINDOW: Duration = Duration::from_mins(10);
/// Without one for so long they are over.
const CALM: Duration = Duration::from_secs(30);

/// When the broker has fenced this relay. Batches that go through in between end nothing: two relays with one id
/// fence each other by turns.
#[derive(Debug, Default)]
pub(super) struct Fencings {
    /// The last ones, at most [`MANY`].
    times: VecDeque<Instant>,
}

impl Fencings {
    /// One more.
    pub(super) fn add(&mut self, now: Instant) {
        if self.times.len() == MANY {
            self.times.pop_front();
        }
        self.times.push_back(now);
    }

    /// Whether they go on.
    pub(super) fn persist(&self, now: Instant) -> bool {
        let (Some(first), Some(last)) = (self.times.front(), self.times.back()) else {
            return false;
        };
        let many = self.times.len() == MANY && last.duration_since(*first) <= WINDOW;
        many && now.duration_since(*last) < CALM && Rule::SharedIdIsTold.on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_within_a_while_go_on_until_it_is_calm() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut fencings = Fencings::default();
        for seconds in [0, 60] {
            fencings.add(at(seconds));
            assert!(!fencings.persist(at(seconds)), "two are an accident");
        }
        fencings.add(at(120));
        assert!(fencings.persist(at(149)) && !fencings.persist(at(150)), "calm for 30 seconds");
        fencings.add(at(300));
        assert!(fencings.persist(at(301)), "the last three are those of four minutes");
        fencings.add(at(2_000));
        assert!(!fencings.persist(at(2_001)), "one after a long time is an accident");
    }
}
