//! Who has a place at the HTTP port: the oldest gives up its own to a newcomer.
//!
//! Nobody waits for a place, so that a probe is answered whatever others hold. Who has asked goes before who has
//! not: connections that say nothing push out each other, and no scraper.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

/// Connections at once: a scraper, a probe, and a few people.
pub(super) const PLACES_MAX: usize = 32;
/// Those of them that are being answered; the others are for who comes, a probe among them.
const ANSWERING_MAX: usize = 24;
/// The longest that a client may take to send its request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// The longest that it may take to read the answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Asking,
    Answering,
    /// Another has its place.
    Over,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place(watch::Sender<Turn>);

impl Place {
    /// Resolves when the connection has had its time, or has to make room.
    pub(super) async fn over(&self) {
        let mut turn = self.0.subscribe();
        let asked = timeout(REQUEST_MAX, turn.wait_for(|turn| *turn != Turn::Asking)).await.is_ok();
        if asked {
            let _ = timeout(ANSWER_MAX, turn.wait_for(|turn| *turn == Turn::Over)).await;
        }
    }

    fn is(&self, turn: Turn) -> bool {
        *self.0.borrow() == turn
    }
}

/// All places that are taken, the oldest first.
#[derive(Default, Debug)]
pub(super) struct Places(Mutex<Vec<Arc<Place>>>);

impl Places {
    /// The place of a new connection.
    pub(super) fn taken(&self) -> Arc<Place> {
        let place = Arc::new(Place(watch::Sender::new(Turn::Asking)));
        self.all().push(Arc::clone(&place));
        place
    }

    /// Its connection has ended.
    pub(super) fn left(&self, place: &Arc<Place>) {
        self.all().retain(|other| !Arc::ptr_eq(other, place));
    }

    /// One connection makes room: the oldest that has asked nothing, else the oldest.
    pub(super) fn make_room(&self) {
        let mut all = self.all();
        let asking = all.iter().position(|place| place.is(Turn::Asking));
        if !all.is_empty() {
            all.remove(asking.unwrap_or(0)).0.send_replace(Turn::Over);
        }
    }

    /// A request has come whole. With too many under way, the oldest answer is given up.
    pub(super) fn asked(&self, place: &Place) {
        let mut all = self.all();
        place.0.send_if_modified(|turn| {
            let first = *turn == Turn::Asking;
            if first {
                *turn = Turn::Answering;
            }
            first
        });
        let answering = || all.iter().filter(|place| place.is(Turn::Answering));
        if answering().count() > ANSWERING_MAX
            && let Some(oldest) = all.iter().position(|place| place.is(Turn::Answering))
        {
            all.remove(oldest).0.send_replace(Turn::Over);
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
