//! A request that waits for its events: each is answered once, and the request with the last of them.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use inbox_runtime::internal::DirectEvent;
use tokio::sync::oneshot;

use crate::answer::Answer;

/// What a request waits for. Dropped without an answer, it ends the wait.
#[derive(Debug)]
pub(crate) struct Ticket {
    state: Mutex<State>,
    deadline: Instant,
}

#[derive(Debug)]
struct State {
    answers: Vec<Option<Answer>>,
    left: usize,
    done: Option<oneshot::Sender<Vec<Answer>>>,
}

impl Ticket {
    pub(crate) fn new(
        events: usize,
        deadline: Instant,
    ) -> (Arc<Self>, oneshot::Receiver<Vec<Answer>>) {
        let (done, answers) = oneshot::channel();
        let state = State { answers: vec![None; events], left: events, done: Some(done) };
        (Arc::new(Self { state: Mutex::new(state), deadline }), answers)
    }

    /// Whether nobody waits any more, so that trying it is of no use.
    fn is_over(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Instant::now() >= self.deadline
            || state.done.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn answer(&self, place: usize, answer: Answer) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Where its answer goes.
#[derive(Clone, Debug)]
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

    /// Whether both came in one request.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ticket, &other.ticket)
    }
}
