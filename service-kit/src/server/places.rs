//! Who has a connection: where there are too many, the one that has asked nothing for longest gives up its own.
//!
//! Nobody waits for a place that such a one holds, so a probe is answered whatever others hold, and a sender whatever
//! others do not read.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::{sync::watch, time::timeout_at};

use super::Bounds;

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// It is to send a request, since then.
    Asking(Instant),
    /// It waits for an answer, or reads it.
    Answering,
    /// Another has its place.
    Over,
}

#[derive(Clone, Copy, Debug)]
struct State {
    turn: Turn,
    /// The answer is there; it may be read yet.
    answered: bool,
    /// Since when it has not read what is written to it.
    unread: Option<Instant>,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place(watch::Sender<State>);

impl Place {
    /// Resolves when the connection has had its time, or has to make room.
    pub(super) async fn over(&self, bounds: &Bounds) {
        let mut states = self.0.subscribe();
        loop {
            let State { turn, unread, .. } = *states.borrow_and_update();
            let asking = match turn {
                Turn::Asking(since) => Some(since + bounds.head_max),
                Turn::Answering => None,
                Turn::Over => return,
            };
            let until = asking.into_iter().chain(unread.map(|since| since + bounds.answer_max));
            let changed = match until.min() {
                Some(until) => timeout_at(until.into(), states.changed()).await,
                None => Ok(states.changed().await),
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// What was written to it could not be sent: it reads nothing.
    pub(super) fn stuck(&self) {
        self.0.send_if_modified(|state| {
            let first = state.unread.is_none();
            state.unread = state.unread.or_else(|| Some(Instant::now()));
            first
        });
    }

    /// Everything that was written to it is sent: if that was an answer, it may ask for more.
    pub(super) fn sent(&self) {
        self.0.send_if_modified(|state| {
            let answered = state.answered && state.turn == Turn::Answering;
            if answered {
                (state.turn, state.answered) = (Turn::Asking(Instant::now()), false);
            }
            state.unread.take().is_some() || answered
        });
    }

    /// Its request is answered.
    pub(super) fn answered(&self) {
        self.0.send_if_modified(|state| {
            state.answered = true;
            false
        });
    }

    /// It has sent a request.
    fn asked(&self) {
        self.0.send_if_modified(|state| {
            let ends = state.turn == Turn::Over;
            if !ends {
                (state.turn, state.answered) = (Turn::Answering, false);
            }
            !ends
        });
    }

    /// Another has its place.
    fn end(&self) {
        self.0.send_modify(|state| state.turn = Turn::Over);
    }

    fn is_asking(&self) -> bool {
        matches!(self.0.borrow().turn, Turn::Asking(_))
    }

    fn is_answering(&self) -> bool {
        self.0.borrow().turn == Turn::Answering
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.0.borrow().unread.is_some()
    }
}

/// All places that are taken, the oldest first.
#[derive(Default, Debug)]
pub(super) struct Places(Mutex<Vec<Arc<Place>>>);

impl Places {
    /// The place of a new connection.
    pub(super) fn taken(&self) -> Arc<Place> {
        let turn = Turn::Asking(Instant::now());
        let state = State { turn, answered: false, unread: None };
        let place = Arc::new(Place(watch::Sender::new(state)));
        self.all().push(Arc::clone(&place));
        place
    }

    /// Its connection has ended.
    pub(super) fn left(&self, place: &Arc<Place>) {
        self.all().retain(|other| !Arc::ptr_eq(other, place));
    }

    /// One connection makes room: the oldest that asks nothing, else the oldest that reads nothing, else, where any may,
    /// the oldest.
    pub(super) fn make_room(&self, any: bool) {
        let mut all = self.all();
        let asking = all.iter().position(|place| place.is_asking());
        let stuck = || all.iter().position(|place| place.is_stuck());
        let oldest = || (any && !all.is_empty()).then_some(0);
        if let Some(at) = asking.or_else(stuck).or_else(oldest) {
            all.remove(at).end();
        }
    }

    /// A request has come whole. With too many under way, the oldest answer is given up.
    pub(super) fn asked(&self, place: &Arc<Place>, answering_max: Option<usize>) {
        let mut all = self.all();
        place.asked();
        let Some(max) = answering_max else { return };
        if all.iter().filter(|place| place.is_answering()).count() > max
            && let Some(oldest) = all.iter().position(|place| place.is_answering())
        {
            all.remove(oldest).end();
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(place: &Place) -> bool {
        matches!(place.0.borrow().turn, Turn::Asking(_))
    }

    #[test]
    fn who_asks_nothing_makes_room_before_who_reads_nothing_and_nobody_who_is_answered() {
        let places = Places::default();
        let [idle, stuck, busy] = [(); 3].map(|()| places.taken());
        for place in [&stuck, &busy] {
            places.asked(place, None);
        }
        stuck.answered();
        stuck.stuck();
        let over = |place: &Place| place.0.borrow().turn == Turn::Over;
        places.make_room(false);
        assert_eq!([&idle, &stuck, &busy].map(|place| over(place)), [true, false, false]);
        places.make_room(false);
        assert_eq!([&stuck, &busy].map(|place| over(place)), [true, false]);
        places.make_room(false);
        assert!(!over(&busy), "it is being answered");
        places.make_room(true);
        assert!(over(&busy));
    }

    #[test]
    fn who_has_read_an_answer_may_ask_for_more() {
        let places = Places::default();
        let place = places.taken();
        places.asked(&place, None);
        place.sent();
        assert!(!asking(&place), "its answer is not there");
        place.answered();
        place.stuck();
        assert!(!asking(&place), "it has not read it");
        places.asked(&place, None);
        place.sent();
        assert!(!asking(&place), "it has asked for more before it read that");
        place.answered();
        place.sent();
        assert!(asking(&place) && !place.is_stuck());
    }
}
