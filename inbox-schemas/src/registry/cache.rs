//! Schemas by their ids: each is fetched once, however many ask at a time, and kept.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use outbox_core::CodecError;

use super::{
    client::{Client, limited},
    settings::{RegistrySettings, SettingsError},
};
use crate::schema::Schema;

/// So long an id that the registry does not know is not asked for again.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// A schema, or why there is none; since when.
type Known = (Result<Arc<Schema>, CodecError>, Instant);

type Flight = Shared<BoxFuture<'static, Result<(), CodecError>>>;

/// The schemas of a registry.
pub(crate) struct Schemas {
    client: Client,
    known: RwLock<Kept>,
    under_way: Mutex<HashMap<u32, Flight>>,
}

struct Kept {
    known: HashMap<u32, Known>,
    /// In the order that they came in.
    order: VecDeque<u32>,
    max: usize,
}

impl Schemas {
    pub(crate) fn new(settings: &RegistrySettings) -> Result<Arc<Self>, SettingsError> {
        let kept = Kept {
            known: HashMap::new(),
            order: VecDeque::new(),
            max: settings.schemas_max.max(1),
        };
        Ok(Arc::new(Self {
            client: Client::new(settings)?,
            known: RwLock::new(kept),
            under_way: Mutex::default(),
        }))
    }

    /// Whether the registry answers.
    pub(crate) async fn look(&self) -> Result<(), CodecError> {
        self.client.look().await
    }

    /// The schema of an id, which was fetched.
    pub(crate) fn get(&self, id: u32) -> Result<Arc<Schema>, CodecError> {
        let kept = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match kept.known.get(&id) {
            // However old: at an attempt nothing changes.
            Some((known, _)) => known.clone(),
            None => Err(CodecError::Unavailable(format!("the schema {id} is not fetched"))),
        }
    }

    /// Whether an id has to be asked for.
    pub(crate) fn lacks(&self, id: u32) -> bool {
        let kept = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match kept.known.get(&id) {
            Some((Ok(_), _)) => false,
            Some((Err(_), since)) => since.elapsed() > REFUSED_FOR,
            None => true,
        }
    }

    /// Fetches the schema of an id, with all others that ask for it.
    pub(crate) fn fetch(self: &Arc<Self>, id: u32) -> Flight {
        let mut under_way = self.under_way();
        if let Some(flight) = under_way.get(&id) {
            return flight.clone();
        }
        let schemas = Arc::clone(self);
        let flight = async move {
            let _landing = Landing { schemas: &schemas, id };
            schemas.fetch_alone(id).await
        };
        let flight = flight.boxed().shared();
        under_way.insert(id, flight.clone());
        flight
    }

    async fn fetch_alone(&self, id: u32) -> Result<(), CodecError> {
        let known = match self.client.fetch(id).await {
            Ok(fetched) => calm(|| Schema::read(&fetched)).map(Arc::new).map_err(|why| {
                let why = limited(&why);
                CodecError::Other(format!(
                    "the schema {id} of the payload cannot be used: {why}; correct it, then release the event"
                ))
            }),
            Err(error) if error.is_outage() => return Err(error),
            Err(error) => Err(error),
        };
        let answer = known.as_ref().map(drop).map_err(Clone::clone);
        let mut kept = self.known.write().unwrap_or_else(PoisonError::into_inner);
        kept.insert(id, (known, Instant::now()));
        answer
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<u32, Flight>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a flight from those that are under way, however it ends: nobody could ask for its id again.
struct Landing<'a> {
    schemas: &'a Schemas,
    id: u32,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.schemas.under_way().remove(&self.id);
    }
}

/// A panic is an error, too: a schema is anybody's text, and what parses it is not ours.
fn calm(read: impl FnOnce() -> Result<Schema, String>) -> Result<Schema, String> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("what reads it panics at it".to_owned()))
}

impl Kept {
    fn insert(&mut self, id: u32, known: Known) {
        if self.known.insert(id, known).is_some() {
            return;
        }
        self.order.push_back(id);
        while self.order.len() > self.max {
            // An id that no schema has goes first: anybody can make up more of them.
            let refused = |id: &u32| self.known.get(id).is_some_and(|(known, _)| known.is_err());
            // Never the one that came last: its event would find nothing, and wait for ever.
            let others = self.order.len() - 1;
            let place = self.order.iter().take(others).position(refused).unwrap_or(0);
            if let Some(gone) = self.order.remove(place) {
                self.known.remove(&gone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_that_panics_leaves_an_error_and_no_flight() {
        let error = calm(|| panic!("at a schema")).unwrap_err();
        assert_eq!(error, "what reads it panics at it");
        let schemas = Schemas::new(&RegistrySettings::new("http://127.0.0.1:1")).unwrap();
        let flight: Flight = futures::future::ready(Ok(())).boxed().shared();
        schemas.under_way().insert(7, flight);
        drop(Landing { schemas: &schemas, id: 7 });
        assert!(schemas.under_way().is_empty());
    }
}
