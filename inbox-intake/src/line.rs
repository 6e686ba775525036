//! Which requests go into the next transaction.
//!
//! A lane is in one transaction of this process at most, so what comes for it meanwhile goes together in the next one. A
//! request goes whole, once all of its lanes are free: in parts it would be in as many transactions, each as dear as a
//! whole one, and would wait for the last. A large one goes in two halves, by its lanes, which two connections work on
//! at once. Of one that meets a slow transaction, what is free goes before.

use std::collections::VecDeque;

use crate::{
    lane_set::LaneSet,
    portion::{Portion, QueueLimits, Queued},
};

/// The requests that wait, in the order in which they came, and the lanes that are in open transactions.
#[derive(Debug)]
pub(crate) struct Line<E> {
    waiting: VecDeque<Portion<E>>,
    busy: LaneSet,
    /// Those among them whose transaction takes long.
    slow: LaneSet,
    /// Those of the transaction that is being committed, if others may have them already.
    committing: LaneSet,
    /// Events of requests that nobody waits for any more.
    over: Vec<E>,
}

impl<E> Default for Line<E> {
    fn default() -> Self {
        let (waiting, none) = (VecDeque::new(), LaneSet::default());
        Self { waiting, busy: none, slow: none, committing: none, over: Vec::new() }
    }
}

impl<E: Queued> Line<E> {
    /// A request waits from now on.
    pub(crate) fn push(&mut self, events: Vec<E>) {
        self.waiting.push_back(Portion::of(events));
    }

    /// The same for a large one, whose halves may be in two transactions at once.
    pub(crate) fn push_halves(&mut self, events: Vec<E>) {
        self.waiting.extend(Portion::halves(events));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The transaction of these lanes is over.
    pub(crate) fn free(&mut self, lanes: LaneSet) {
        self.busy.remove(lanes);
        self.slow.remove(lanes);
    }

    /// The transaction of these lanes, which has them yet, takes long.
    pub(crate) fn slow(&mut self, lanes: LaneSet) {
        self.slow.add(lanes);
    }

    /// It is being committed, and is the only one: the next one may have its lanes, and waits in the database for it.
    pub(crate) fn free_early(&mut self, lanes: LaneSet) {
        self.busy.remove(lanes);
        self.committing.add(lanes);
    }

    /// Whether one that has such lanes was freed early, and is not over.
    pub(crate) fn is_committing(&self, lanes: LaneSet) -> bool {
        self.committing.meets(lanes)
    }

    /// What was freed early is over.
    pub(crate) fn committed(&mut self, lanes: LaneSet) {
        self.committing.remove(lanes);
    }

    /// Takes requests out that have waited longest, while nobody waits for them: the others are over later, as a rule.
    pub(crate) fn skip_over(&mut self) {
        while self.waiting.front().is_some_and(Portion::is_over) {
            self.over.extend(self.waiting.pop_front().into_iter().flat_map(|gone| gone.events));
        }
    }

    /// Those that were taken out since, to be answered.
    pub(crate) fn take_over(&mut self) -> Vec<E> {
        std::mem::take(&mut self.over)
    }

    /// What the next transaction takes: requests whose lanes are free, in the order in which they came. The lanes of one
    /// that has to wait are kept for it, or smaller ones would be before it for ever; not for one that nobody waits for.
    pub(crate) fn next_portion(&mut self, limits: &QueueLimits) -> Option<Portion<E>> {
        let mut portion: Option<Portion<E>> = None;
        let mut kept = self.busy;
        let mut left = VecDeque::new();
        while let Some(request) = self.waiting.pop_front() {
            // A COMMIT may fail: what is left of a request is not run before what is in front of it.
            let waits = request.is_rest && request.lanes.meets(self.committing);
            if waits || request.lanes.meets(kept) {
                // To ask of each would cost too much: of those that keep nothing more, it is asked when they are first.
                if !kept.holds(request.lanes) && request.is_over() {
                    self.over.extend(request.events);
                    continue;
                }
                let mut blocked = kept;
                if waits {
                    blocked.add(self.committing);
                }
                if request.lanes.meets(self.slow) && !blocked.holds(request.lanes) {
                    // What is free is looked at next, and has no lane that is kept: it is taken, or there is no room.
                    let (free, rest) = request.split_by(blocked);
                    kept.add(rest.lanes);
                    left.push_back(rest);
                    self.waiting.push_front(free);
                    continue;
                }
                kept.add(request.lanes);
                left.push_back(request);
                continue;
            }
            match &mut portion {
                None => {
                    let (first, rest) = request.split(limits);
                    portion = Some(first);
                    if let Some(rest) = rest {
                        kept.add(rest.lanes);
                        left.push_back(rest);
                    }
                }
                // In a transaction of its own, at once; what comes behind it waits for it.
                Some(portion) if portion.is_other_half(&request) => {
                    kept.add(request.lanes);
                    left.push_back(request);
                }
                Some(portion) if portion.has_room(&request, limits) => portion.append(request),
                Some(_) => {
                    left.push_back(request);
                    break;
                }
            }
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        let mut portion = portion?;
        // The order of a transaction is that of its lanes.
        portion.events.sort_by_key(E::lane);
        self.busy.add(portion.lanes);
        Some(portion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its lane, and a number.
    type Event = (u16, u32);

    /// From this number on nobody waits.
    const OVER: u32 = 1_000;

    impl Queued for Event {
        fn lane(&self) -> u16 {
            self.0
        }

        fn bytes(&self) -> usize {
            10
        }

        fn is_over(&self) -> bool {
            self.1 >= OVER
        }
    }

    fn limits(events: usize, bytes: usize) -> QueueLimits {
        QueueLimits {
            transactions_max: 4,
            batch_events_max: events,
            batch_bytes_max: bytes,
            bytes_max: usize::MAX,
        }
    }

    fn line(requests: &[&[Event]]) -> Line<Event> {
        let mut line = Line::default();
        for request in requests {
            line.push(request.to_vec());
        }
        line
    }

    /// The next portion; and how its transaction ends.
    fn next(line: &mut Line<Event>, limits: &QueueLimits) -> Option<(Vec<Event>, LaneSet)> {
        let (events, lanes, bytes) = line.next_portion(limits)?.into_parts();
        assert_eq!(bytes, events.len() * 10);
        Some((events, lanes))
    }

    #[test]
    fn what_comes_meanwhile_goes_together_by_its_lanes() {
        let (mut line, limits) = (line(&[&[(1, 0)]]), limits(9, 999));
        let (first, lanes) = next(&mut line, &limits).unwrap();
        assert_eq!(first, [(1, 0)]);
        line.push(vec![(1, 1)]);
        line.push(vec![(0, 2), (1, 3), (0, 4)]);
        assert!(next(&mut line, &limits).is_none(), "a lane is in two transactions");
        line.free(lanes);
        let (second, _) = next(&mut line, &limits).unwrap();
        assert_eq!(second, [(0, 2), (0, 4), (1, 1), (1, 3)]);
        assert!(line.is_empty());
    }

    #[test]
    fn a_request_goes_whole_and_those_of_other_lanes_pass_it() {
        let (mut line, limits) = (line(&[&[(1, 0)]]), limits(9, 999));
        let (_, lanes) = next(&mut line, &limits).unwrap();
        for request in [&[(1, 1), (2, 2)][..], &[(3, 3)], &[(2, 4)], &[(4, 5), (3, 6)]] {
            line.push(request.to_vec());
        }
        let (beside, _) = next(&mut line, &limits).unwrap();
        assert_eq!(beside, [(3, 3), (3, 6), (4, 5)], "what waits keeps its lanes");
        assert!(next(&mut line, &limits).is_none());
        line.free(lanes);
        assert_eq!(next(&mut line, &limits).unwrap().0, [(1, 1), (2, 2), (2, 4)]);
    }

    #[test]
    fn a_large_request_goes_in_two_halves_at_once() {
        let large: Vec<Event> = (0..16).map(|n| (n % 8, u32::from(n))).collect();
        let (mut line, limits) = (Line::default(), limits(99, 999));
        line.push_halves(large);
        line.push(vec![(1, 16), (9, 17)]);
        let (even, lanes) = next(&mut line, &limits).unwrap();
        let halved = [(0, 0), (0, 8), (2, 2), (2, 10), (4, 4), (4, 12), (6, 6), (6, 14)];
        assert_eq!(even, halved);
        let (odd, _) = next(&mut line, &limits).unwrap();
        assert_eq!(
            odd[..4],
            [(1, 1), (1, 9), (1, 16), (3, 3)],
            "nothing passes the half that waits"
        );
        assert_eq!(odd.len(), 10);
        line.free(lanes);
        assert!(line.is_empty());
    }

    #[test]
    fn a_transaction_has_no_more_than_it_may() {
        let (events, requests) = (limits(3, 999), [&[(1, 0)][..], &[(2, 1), (3, 2)], &[(4, 3)]]);
        let mut line = line(&requests);
        assert_eq!(next(&mut line, &events).unwrap().0, [(1, 0), (2, 1), (3, 2)]);
        assert_eq!(next(&mut line, &events).unwrap().0, [(4, 3)]);

        for limits in [limits(2, 999), limits(9, 25)] {
            line.free((0..9).collect());
            line.push(vec![(5, 0), (1, 1), (5, 2), (1, 3), (5, 4)]);
            let (first, lanes) = next(&mut line, &limits).unwrap();
            assert_eq!(first, [(1, 1), (1, 3)]);
            line.free(lanes);
            let (second, lanes) = next(&mut line, &limits).unwrap();
            assert_eq!(second, [(5, 0), (5, 2)]);
            assert!(next(&mut line, &limits).is_none(), "the rest is of a lane that is busy");
            line.free_early(lanes);
            assert!(next(&mut line, &limits).is_none(), "what is before it may fail yet");
            line.push(vec![(5, 9)]);
            line.committed(lanes);
            assert_eq!(next(&mut line, &limits).unwrap().0, [(5, 4), (5, 9)]);
        }
        line.free((0..9).collect());
        line.push(vec![(1, 0), (2, 1)]);
        assert_eq!(next(&mut line, &limits(9, 5)).unwrap().0, [(1, 0)], "a larger one goes alone");
    }

    #[test]
    fn of_a_request_that_meets_a_slow_transaction_the_rest_goes_before() {
        let (mut line, limits) = (line(&[&[(1, 0)]]), limits(9, 999));
        let (_, slow) = next(&mut line, &limits).unwrap();
        line.push(vec![(1, 1), (2, 2), (1, 3), (3, 4)]);
        line.push(vec![(2, 5), (1, 6)]);
        assert!(next(&mut line, &limits).is_none(), "it may be over soon");
        line.slow(slow);
        let (beside, lanes) = next(&mut line, &limits).unwrap();
        assert_eq!(beside, [(2, 2), (2, 5), (3, 4)]);
        line.push(vec![(2, 7), (1, 8)]);
        assert!(next(&mut line, &limits).is_none(), "both are busy");
        line.free(lanes);
        assert_eq!(next(&mut line, &limits).unwrap().0, [(2, 7)]);
        line.free(slow);
        assert_eq!(next(&mut line, &limits).unwrap().0, [(1, 1), (1, 3), (1, 6), (1, 8)]);
        assert!(line.is_empty());
        line.push(vec![(1, 9), (4, 10)]);
        assert!(next(&mut line, &limits).is_none(), "the next one of the lane is quick");
    }

    #[test]
    fn what_nobody_waits_for_keeps_no_lanes() {
        let (mut line, limits) = (line(&[&[(1, 0)]]), limits(9, 999));
        let (_, lanes) = next(&mut line, &limits).unwrap();
        line.push(vec![(1, OVER), (2, OVER)]);
        line.push(vec![(1, OVER)]);
        line.push(vec![(2, 1)]);
        assert_eq!(next(&mut line, &limits).unwrap().0, [(2, 1)]);
        assert_eq!(line.take_over(), [(1, OVER), (2, OVER)]);
        line.skip_over();
        assert_eq!(line.take_over(), [(1, OVER)], "it was first");
        assert!(line.is_empty() && line.take_over().is_empty());
        line.push(vec![(1, 2)]);
        line.push(vec![(1, OVER)]);
        line.skip_over();
        assert!(line.take_over().is_empty());
        line.free(lanes);
        assert_eq!(next(&mut line, &limits).unwrap().0, [(1, 2), (1, OVER)]);
    }
}
