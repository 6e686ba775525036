//! A request that waits for its events: each is answered once, and the request with the last of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use inbox_runtime::internal::DirectEvent;
use tokio::sync::oneshot;

use crate::answer::{Answer, UNKNOWN};

/// What a request waits for.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// Of its events, in their order.
    aggregates: Vec<[u8; 16]>,
    state: Mutex<State>,
    deadline: Instant,
}

#[derive(Debug)]
struct State {
    answers: Vec<Option<Answer>>,
    left: usize,
    /// Aggregates of which an event has to be sent again, with the first place of one.
    refused: HashMap<[u8; 16], usize>,
    done: Option<oneshot::Sender<Vec<Answer>>>,
}

impl Ticket {
    pub(crate) fn new(
        aggregates: Vec<[u8; 16]>,
        deadline: Instant,
    ) -> (Arc<Self>, oneshot::Receiver<Vec<Answer>>) {
        let (done, answers) = oneshot::channel();
        let left = aggregates.len();
        let refused = HashMap::new();
        let state = State { answers: vec![None; left], left, refused, done: Some(done) };
        (Arc::new(Self { aggregates, state: Mutex::new(state), deadline }), answers)
    }

    /// Whether nobody waits any more, so that trying it is of no use.
    fn is_over(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Instant::now() >= self.deadline
            || state.done.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Whether an event of the same aggregate before this one has to be sent again: run now, it would be run before
    /// that one.
    fn is_behind(&self, place: usize) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.refused.get(&self.aggregates[place]).is_some_and(|first| *first < place)
    }

    fn is_answered(&self, place: usize) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Once the request is, none are left here.
        state.answers.get(place).is_none_or(Option::is_some)
    }

    fn answer(&self, place: usize, answer: Answer) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(answer, Answer::Again { .. }) {
            let first = state.refused.entry(self.aggregates[place]).or_insert(place);
            *first = place.min(*first);
        }
        if state.answers[place].replace(answer).is_none() {
            state.left -= 1;
        }
        if state.left == 0
            && let Some(done) = state.done.take()
        {
            let answers = std::mem::take(&mut state.answers).into_iter().flatten().collect();
            drop(done.send(answers)); // whoever has gone away sends it again
        }
    }
}

/// An event that waits, or runs.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) event: DirectEvent,
    pub(crate) slot: Slot,
}

/// Where its answer goes. Dropped without one, as by a panic, it says so itself: what follows in its request must not
/// run before it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) place: usize,
}

impl Slot {
    pub(crate) fn answer(&self, answer: Answer) {
        self.ticket.answer(self.place, answer);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ticket.is_over()
    }

    /// Whether an event of its aggregate before it in its request has to be sent again.
    pub(crate) fn is_behind(&self) -> bool {
        self.ticket.is_behind(self.place)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.ticket.is_answered(self.place) {
            self.answer(Answer::again(UNKNOWN, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_be_sent_again_holds_what_follows_it_in_its_aggregate() {
        let aggregates = vec![[1; 16], [2; 16], [1; 16], [1; 16]];
        let (ticket, _answers) = Ticket::new(aggregates, Instant::now());
        let behind = || [0, 1, 2, 3].map(|place| ticket.is_behind(place));
        assert_eq!(behind(), [false; 4]);
        ticket.answer(2, Answer::again("", 1));
        assert_eq!(behind(), [false, false, false, true]);
        ticket.answer(0, Answer::again("", 1));
        assert_eq!(behind(), [false, false, true, true]);
        ticket.answer(1, Answer::Settled(inbox_runtime::internal::Settlement::Applied));
        assert_eq!(behind(), [false, false, true, true]);
    }

    #[test]
    fn what_is_dropped_without_an_answer_has_to_be_sent_again() {
        let (ticket, mut answers) = Ticket::new(vec![[1; 16]; 3], Instant::now());
        let [first, second, third] =
            [0, 1, 2].map(|place| Slot { ticket: Arc::clone(&ticket), place });
        let applied = Answer::Settled(inbox_runtime::internal::Settlement::Applied);
        first.answer(applied.clone());
        drop(first);
        assert!(!third.is_behind());
        drop(second);
        assert!(third.is_behind());
        assert!(answers.try_recv().is_err(), "one is not answered");
        drop(third);
        let again = || Answer::again(UNKNOWN, 1);
        assert_eq!(answers.try_recv().unwrap(), [applied, again(), again()]);
    }
}
