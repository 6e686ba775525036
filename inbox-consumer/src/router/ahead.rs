//! Payloads decoded before their turn, while the database is busy with the transaction's beginning.

use std::any::Any;

use super::{RunEvent, table::RouteTable};
use crate::{Event, pipeline::port::Sessions};

/// After so many events others have their turn: what the database answered is looked at.
const AT_ONCE: usize = 32;

/// What one route has decoded, by the places of the events in their batch.
pub(super) type Decoded<T> = Vec<Option<Result<Event<T>, String>>>;

/// What the routes of a batch have decoded: each a [`Decoded`] of its own type.
#[derive(Default)]
pub(crate) struct Ahead(Vec<(u32, Box<dyn Any + Send>)>);

/// What was decoded of the events of a run.
pub(crate) struct AheadOfRun<'a> {
    decoded: Option<&'a mut (dyn Any + Send)>,
    places: &'a [usize],
}

impl Ahead {
    /// Decodes for the routes that take whole runs. `events`: their places in the batch, and their routes.
    pub(crate) async fn of<'a, DB: Sessions>(
        table: &RouteTable<DB>,
        events: impl Iterator<Item = (usize, u32, RunEvent<'a>)>,
    ) -> Self {
        let mut ahead = Self::default();
        for (count, (place, number, event)) in events.enumerate() {
            if count % AT_ONCE == AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            let route = table.route(number);
            let known = ahead.0.iter().position(|(known, _)| *known == number);
            let at = known.or_else(|| {
                ahead.0.push((number, route.ahead()?));
                Some(ahead.0.len() - 1)
            });
            if let Some((_, decoded)) = at.and_then(|at| ahead.0.get_mut(at)) {
                route.decode(place, event, &mut **decoded);
            }
        }
        ahead
    }

    /// What was decoded of the events at `places` for a route.
    pub(crate) fn of_run<'a>(&'a mut self, number: u32, places: &'a [usize]) -> AheadOfRun<'a> {
        let decoded = self.0.iter_mut().find(|(known, _)| *known == number);
        AheadOfRun { decoded: decoded.map(|(_, decoded)| &mut **decoded), places }
    }
}

impl AheadOfRun<'_> {
    /// Nothing was decoded.
    pub(crate) fn none() -> Self {
        Self { decoded: None, places: &[] }
    }

    /// What was decoded of the run's event at `at`; `None` when it was not, or was taken.
    pub(super) fn take<T: 'static>(&mut self, at: usize) -> Option<Result<Event<T>, String>> {
        let decoded = self.decoded.as_deref_mut()?.downcast_mut::<Decoded<T>>()?;
        decoded.get_mut(*self.places.get(at)?)?.take()
    }
}
